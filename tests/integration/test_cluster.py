"""Three whole nodes, connected by NATS, on one PostgreSQL: a client may connect to any of them."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from harness.admin import HUB, admin_of, client_of, service_of
from harness.cluster import Crowd, Ground, channel_of, eventually, start_node
from harness.running_hub import OPEN, RunningHub, Socket, open_hub
from harness.topics import HttpTopic, texts
from hubbub.domain.errors import Unavailable
from hubbub.domain.names import PARTITIONS

pytestmark = pytest.mark.asyncio(loop_scope="module")

STORED = msgspec.structs.replace(OPEN, store=True, live_history=False, retain=True)
SOCIAL = msgspec.structs.replace(OPEN, presence=True, occupancy=True)
NAMES = ("east", "north", "west")
HUB_SETTINGS = open_hub(
    namespaces={"kept": STORED, "room": SOCIAL, "fleeting": OPEN}, session_restore=True
)
Nodes = dict[str, RunningHub]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nodes(on: Ground, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Nodes]:
    folder = tmp_path_factory.mktemp("cluster")
    nodes = {name: await start_node(folder, on, name, [HUB_SETTINGS]) for name in NAMES}
    yield nodes
    for node in nodes.values():
        await node.close()


async def heard(socket: Socket) -> object:
    return (await socket.find("Publish"))["payload"]["json"]


@pytest.mark.spec("CLU-01", "OPS-03")
async def test_no_client_is_sent_to_a_node_that_the_others_do_not_know(
    nodes: Nodes, on: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub.cluster.member.HAND_OVER_SECONDS", 0.1)
    secret = {"cluster__secretKey": "another secret than that of the cluster"}
    stranger = await start_node(tmp_path, on, "south", [HUB_SETTINGS], **secret)
    try:
        for node, status in [(stranger, 503), *((node, 200) for node in nodes.values())]:
            async with node.http.get("/readyz") as answer:
                assert answer.status == status
                said = await answer.json()
        async with stranger.http.get("/readyz") as answer:
            assert "not in the cluster" in (await answer.json())["reason"]
        assert said == {"status": "ready"}
    finally:
        await stranger.close()


@pytest.mark.spec("CLU-01", "CLU-03")
@pytest.mark.parametrize("prefix", ["plain", "kept:topic"])
@pytest.mark.parametrize("owner", NAMES)
async def test_what_is_published_on_one_node_is_heard_on_all(
    nodes: Nodes, owner: str, prefix: str
) -> None:
    channel = channel_of(owner, NAMES, prefix)
    listeners = [await node.socket() for node in nodes.values()]
    for listener in listeners:
        await listener.subscribe(channel)
    for number, node in enumerate(nodes.values()):
        result = await (await node.socket()).publish(channel, {"json": number}, store=True)
        assert result["success"], result
        assert result["channelSerial"] == str(number + 1)
    for listener in listeners:
        assert [await heard(listener) for _ in nodes] == [0, 1, 2]


@pytest.mark.spec("CLU-03")
async def test_presence_and_occupancy_count_the_sessions_of_all_nodes(nodes: Nodes) -> None:
    channel = channel_of("west", NAMES, "room:lobby")
    guests = []
    for name, node in nodes.items():
        guest = await node.socket(token=node.token(name))
        await guest.subscribe(channel)
        guests.append(guest)
    newcomer = await nodes["east"].socket(token=nodes["east"].token("late"))
    await newcomer.subscribe(channel)
    crowd = Crowd(newcomer)
    await crowd.until(lambda c: set(c.present.values()) == {*NAMES, "late"} and c.count == 4)
    await guests[0].connection.close()
    await crowd.until(lambda c: set(c.present.values()) == {"north", "west", "late"})
    await crowd.until(lambda c: c.count == 3)


@pytest.mark.spec("CLU-03", "LIVE-12", "LIVE-13")
async def test_history_and_retained_messages_are_the_same_from_every_node(nodes: Nodes) -> None:
    channel = channel_of("north", NAMES, "kept:log")
    speaker = await nodes["west"].socket()
    for number in range(3):
        await speaker.publish(channel, {"json": number}, store=True, retain=True)
    for node in nodes.values():
        asking = await node.socket()
        await asking.send("History", channel=channel, reqID=1, after="0")
        page = await asking.find("History")
        assert [item["payload"]["json"] for item in page["messages"]] == [0, 1, 2]
        await asking.send("Subscribe", reqID=2, channels=[{"channel": channel}])
        assert (await asking.find("Publish"))["payload"]["json"] == 2


@pytest.mark.spec("CLU-03", "ONCE-04")
async def test_a_durable_subscription_is_one_on_all_nodes(nodes: Nodes) -> None:
    name = channel_of("north", NAMES, "kept:jobs")
    east, west = (HttpTopic(nodes[node], name, nodes[node].token()) for node in ("east", "west"))
    assert (await east.subscribe("worker")).status in (200, 201)
    for body in ("a", "b", "c"):
        assert (await west.put(body)).status == 200
    assert texts(await west.get("worker", limit=2)) == ["a", "b"]
    assert (await east.ack("worker", upTo="2")).status == 200
    assert texts(await east.get("worker")) == ["c"]
    assert (await west.state("worker")).json["floor"] == "2"


@pytest.mark.spec("CLU-03", "LIVE-15")
async def test_a_session_is_restored_on_another_node(nodes: Nodes) -> None:
    channel = channel_of("west", NAMES, "kept:inbox")
    first = await nodes["east"].socket(token=nodes["east"].token("wanderer"))
    key = (await first.find("SessionRestore"))["restoreKey"]
    await first.subscribe(channel)
    await first.connection.close()
    speaker = await nodes["north"].socket()
    await speaker.publish(channel, {"json": "missed"}, store=True)
    answers = []

    async def restored() -> bool:
        socket = await nodes["west"].socket()
        await socket.send("SessionRestore", restoreKey=key, reqID=5, positions=[])
        answer = await socket.next()
        answers.append((socket, answer))
        return bool(answer["event"] == "SessionRestored")

    await eventually(restored)  # the snapshot is written a few times a second
    socket, answer = answers[-1]
    assert answer["payload"]["userID"] == "wanderer"
    assert await heard(socket) == "missed"


@pytest.mark.spec("CLU-03", "LIVE-15")
async def test_a_session_that_is_restored_elsewhere_ends_its_old_connection(nodes: Nodes) -> None:
    channel = channel_of("west", NAMES, "room:hall")
    watcher = await nodes["north"].socket()
    await watcher.subscribe(channel)
    first = await nodes["east"].socket(token=nodes["east"].token("twin"))
    key = (await first.find("SessionRestore"))["restoreKey"]
    await first.subscribe(channel)
    crowd = Crowd(watcher)
    await crowd.until(lambda c: "twin" in c.present.values())

    async def restored() -> bool:
        socket = await nodes["west"].socket()
        await socket.send("SessionRestore", restoreKey=key, reqID=5, positions=[])
        return bool((await socket.next())["event"] == "SessionRestored")

    await eventually(restored)
    await first.closed()
    present = (await admin_of(nodes["north"])("GET", f"{HUB}/channels/{channel}/presence")).json
    assert [each["userID"] for each in present["presence"] if "userID" in each].count("twin") == 1


@pytest.mark.spec("ADMIN-04", "LIVE-11")
async def test_a_changed_rule_takes_effect_on_all_nodes_at_once(nodes: Nodes) -> None:
    channel = "fleeting:one"
    listeners = [await node.socket() for node in nodes.values()]
    for listener in listeners:
        await listener.subscribe(channel)
    admin = admin_of(nodes["east"])
    changed = await admin("PUT", f"{HUB}/rules/of-fleeting", {"public": False})
    assert changed.status in (200, 201), changed.text
    for listener in listeners:
        ended = await listener.find("Unsubscribe")
        assert [failure["channel"] for failure in ended["failures"]] == [channel]


@pytest.mark.spec("CLU-06")
async def test_a_second_node_of_the_same_name_is_refused(
    nodes: Nodes, tmp_path: Path, on: Ground
) -> None:
    with pytest.raises(Unavailable, match=r"cluster\.node"):
        await start_node(tmp_path, on, "east", [HUB_SETTINGS])
    metrics = await nodes["east"].metrics()
    assert "hubbub_cluster_nodes 3.0" in metrics
    assert "hubbub_cluster_in_reach 1.0" in metrics


@pytest.mark.spec("CLU-03")
async def test_a_token_of_one_node_holds_on_the_others_until_it_is_revoked(nodes: Nodes) -> None:
    token = nodes["east"].token("mallory")
    guests = [await node.socket(token=token) for node in nodes.values()]
    body = {"kind": "user", "subject": "mallory"}
    revoked = await admin_of(nodes["west"])("POST", f"{HUB}/revocations", body)
    assert revoked.status in (200, 201, 204), revoked.text
    for guest in guests:
        code, _ = await guest.closed()
        assert code >= 4000


@pytest.mark.spec("ADMIN-04", "CLU-03")
async def test_the_admin_api_of_any_node_answers_for_all(nodes: Nodes) -> None:
    channel = "room:office"
    guests = {}
    for name, node in nodes.items():
        guests[name] = await node.socket(token=node.token(f"clerk-{name}"))
        await guests[name].subscribe(channel)
    for node in nodes.values():
        admin = admin_of(node)
        listed = (await admin("GET", f"{HUB}/sessions?channel={channel}")).json["items"]
        assert {each["userID"]: each["node"] for each in listed} == {
            f"clerk-{name}": name for name in NAMES
        }
        topology = (await admin("GET", "/v1/admin/topology?hub=acme")).json
        assert topology["silent"] == []
        assert sorted(each["node"] for each in topology["nodes"]) == list(NAMES)
        assert sum(each["partitions"] for each in topology["nodes"]) == PARTITIONS
        channels = (await admin("GET", f"{HUB}/channels?live=true&limit=1000")).json["items"]
        counted = {each["channel"]: each["sessions"] for each in channels}
        assert counted[channel] == 3
        found = await admin("GET", f"{HUB}/channels?q=offic&sort=-sessions")
        assert [(each["channel"], each["sessions"]) for each in found.json["items"]] == [
            (channel, 3)
        ]
        assert (await admin("GET", f"{HUB}/channels/{channel}")).json["sessions"] == 3
        newest = await admin("GET", f"{HUB}/sessions?q=clerk-&sort=-opened")
        assert [each["userID"] for each in newest.json["items"]] == [
            f"clerk-{name}" for name in reversed(nodes)
        ]
        assert newest.json["total"] == 3
        links = {each["node"]: sorted(each["links"]) for each in topology["nodes"]}
        assert links == {name: sorted(set(NAMES) - {name}) for name in NAMES}
        series = (await admin("GET", "/v1/admin/series")).json
        assert (sorted(each["node"] for each in series["series"]), series["silent"]) == (
            list(NAMES), [],
        )  # fmt: skip
        present = (await admin("GET", f"{HUB}/channels/{channel}/presence")).json["presence"]
        assert len(present) == 3
    figures = [(await admin_of(node)("GET", f"{HUB}/counters")).json for node in nodes.values()]
    assert figures[0]["sessions"] >= 3
    assert all(each["sessionsOpened"] == figures[0]["sessionsOpened"] for each in figures)
    admin = admin_of(nodes["east"])
    listed = (await admin("GET", f"{HUB}/sessions?user=clerk-west")).json["items"]
    path = f"{HUB}/sessions/{listed[0]['sessionID']}"
    assert (await admin("GET", path)).json["node"] == "west"
    assert (await admin("DELETE", path)).status == 204
    await guests["west"].closed()
    assert (await admin("GET", path)).status == 404
    assert (await admin("DELETE", path)).status == 404


@pytest.mark.spec("CLU-01", "OPS-01")
async def test_a_node_that_cannot_reach_nats_says_so_and_ends(on: Ground, tmp_path: Path) -> None:
    """It used to fail again while it cleaned up, and showed that instead."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"nats://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(Unavailable, match="cannot be reached"):
            await start_node(tmp_path, on, "south", [HUB_SETTINGS], broker__host=address)


@pytest.mark.spec("NOTE-01", "CLU-01")
async def test_notifications_and_their_read_state_are_the_same_on_every_node(nodes: Nodes) -> None:
    channel = channel_of("north", NAMES, "notification:n")
    path = f"/channels/{channel}/notifications"
    west = await nodes["west"].socket(token=nodes["west"].token("ann"))
    await west.subscribe(channel)
    assert (await west.find("NotificationInfo"))["unread"] == 0
    body = {"notifications": [{"id": "a", "payload": {"json": 1}}, {"payload": {"json": 2}}]}
    made = await service_of(nodes["east"])("POST", f"{HUB}{path}", body)
    assert [each["success"] for each in made.json["created"]] == [True, True]
    again = await service_of(nodes["west"])("POST", f"{HUB}{path}", body)
    assert [each["duplicate"] for each in again.json["created"]] == [True, False]
    news = [(await west.find("NotificationNew"))["revision"] for _ in range(3)]
    assert news == [1, 2, 3]
    marked = await client_of(nodes["east"])("POST", f"/v1/hubs/acme{path}/read", {"ids": ["a"]})
    assert marked.json["unread"] == 2
    assert (await west.find("NotificationRead"))["ids"] == ["a"]
    for node in nodes.values():
        page = (await client_of(node)("GET", f"/v1/hubs/acme{path}?unread=true")).json
        assert (page["unread"], page["revision"], len(page["notifications"])) == (2, 4, 2)
