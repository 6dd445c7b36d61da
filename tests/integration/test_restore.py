"""Coming back after a short absence as the same session."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.clock import FakeClock
from harness.engine import Alone, Cluster, FakeConnection, receive
from harness.restarting import RestartingHub
from harness.running_hub import OPEN, RunningHub, Socket, StartHub, open_hub
from hubbub.domain.notices import Failed, RestoreKey, SessionRestored
from hubbub.domain.permissions import Grant, Identity
from hubbub.domain.requests import Ping, Restore
from hubbub.domain.rules import HubSettings, Rules
from hubbub.ports.storage.sessions import SessionSnapshot

pytestmark = pytest.mark.spec("LIVE-15")

STORED = msgspec.structs.replace(OPEN, store=True, live_history=False)
SOCIAL = msgspec.structs.replace(OPEN, presence=True, occupancy=True)
PRIVATE = Rules(live_history=True)


class Guest:
    """An authenticated session, and what it needs to come back."""

    def __init__(self, socket: Socket, session_id: str, key: str) -> None:
        self.socket = socket
        self.session_id = session_id
        self.key = key


async def enter(
    hub: RunningHub, *channels: str, token: str | None = None, name: str = "acme"
) -> Guest:
    headers = {"Authorization": f"Bearer {token or hub.token(hub=name)}"}
    socket = await hub.raw_socket(name, additional_headers=headers)
    info = await socket.expect("SessionInfo")
    key = (await socket.find("SessionRestore"))["restoreKey"]
    if channels:
        confirmed = await socket.subscribe(*channels)
        assert confirmed["subscribedChannels"] == list(channels)
    return Guest(socket, info["sessionID"], key)


async def try_restore(
    hub: RunningHub, key: str, positions: Iterable[dict[str, Any]] = (), name: str = "acme"
) -> tuple[Socket, dict[str, Any]]:
    """A new connection that presents the key; the answer may be an error."""
    socket = await hub.socket(name)
    await socket.send("SessionRestore", restoreKey=key, reqID=5, positions=list(positions))
    return socket, await socket.next()


async def restore(
    hub: RunningHub, key: str, positions: Iterable[dict[str, Any]] = ()
) -> tuple[Guest, dict[str, Any]]:
    socket, answer = await try_restore(hub, key, positions)
    assert answer["event"] == "SessionRestored", answer
    restored: dict[str, Any] = answer["payload"]
    new_key = (await socket.expect("SessionRestore"))["restoreKey"]
    return Guest(socket, restored["sessionID"], new_key), restored


async def refused(hub: RunningHub, key: str, code: str = "restore_failed", **more: Any) -> Socket:
    socket, answer = await try_restore(hub, key, **more)
    assert answer["event"] == "Error", answer
    assert answer["payload"]["error"]["code"] == code
    assert answer["payload"]["reqID"] == 5
    return socket


async def answered(socket: Socket) -> None:
    """A frame that the hub has certainly handled."""
    await socket.send("Ping", reqID=99)
    await socket.find("Pong")


async def hang_up(guest: Guest) -> None:
    await guest.socket.connection.close()


def position(channel: str, serial: int, epoch: str) -> dict[str, Any]:
    return {"channel": channel, "serial": str(serial), "epoch": epoch}


# -- what comes back -------------------------------------------------------------------------------


async def test_identity_permissions_metadata_and_session_id_come_back(hub: RunningHub) -> None:
    grants = (Grant("secret:*", publish=True, subscribe=True),)
    guest = await enter(hub, "secret:one", token=hub.token("ann", grants=grants, colour="red"))
    await hang_up(guest)
    back, restored = await restore(hub, guest.key)
    assert back.session_id == guest.session_id
    assert restored["reqID"] == 5
    assert restored["userID"] == "ann"
    assert restored["authorizations"] == [
        {"channel": "secret:*", "publish": True, "subscribe": True}
    ]
    assert restored["extra"] == {"colour": "red"}
    assert restored["subscribedChannels"] == ["secret:one"]
    assert restored["failures"] == []
    assert (await back.socket.publish("secret:two", {"json": 1}))["success"]
    delivered = await (await hub.socket(token=hub.token(grants=grants))).subscribe("secret:two")
    assert delivered["subscribedChannels"] == ["secret:two"]


@pytest.mark.parametrize("rules", [OPEN, STORED], ids=["live-history", "stored"])
async def test_missed_messages_come_exactly_once_after_the_clients_own_positions(
    start_hub: StartHub, rules: Rules
) -> None:
    hub = await start_hub(open_hub(rules=rules))
    guest = await enter(hub, "a", "b")
    speaker = await hub.socket()
    epochs: dict[str, str] = {}
    for number in range(1, 6):
        for channel in ("a", "b"):
            await speaker.publish(channel, {"json": number}, store=True)
    for channel in ("a", "b"):
        await speaker.send("History", channel=channel, reqID=1)
        epochs[channel] = (await speaker.find("History"))["epoch"]
    await hang_up(guest)
    for number in range(6, 11):
        for channel in ("a", "b"):
            await speaker.publish(channel, {"json": number}, store=True)
    back, restored = await restore(
        hub, guest.key, [position("a", 2, epochs["a"]), position("b", 9, epochs["b"])]
    )
    assert all(channel["recovered"] for channel in restored["channels"])
    for channel in ("a", "b"):
        await speaker.publish(channel, {"json": 11}, store=True)
    seen: dict[str, list[int]] = {"a": [], "b": []}
    while seen["a"][-1:] != [11] or seen["b"][-1:] != [11]:
        delivered = await back.socket.expect("Publish")
        seen[delivered["channel"]].append(delivered["payload"]["json"])
    assert seen == {"a": list(range(3, 12)), "b": [10, 11]}


async def test_without_positions_messages_follow_from_where_the_connection_ended(
    hub: RunningHub,
) -> None:
    guest = await enter(hub, "news")
    speaker = await hub.socket()
    await speaker.publish("news", {"json": 1})
    await guest.socket.find("Publish")
    await hang_up(guest)
    await speaker.publish("news", {"json": 2})
    back, _ = await restore(hub, guest.key)
    assert (await back.socket.expect("Publish"))["payload"] == {"json": 2}


async def test_what_is_gone_meanwhile_is_said_to_be_gone(start_hub: StartHub) -> None:
    hub = await start_hub(engine__maxLiveHistorySize=3)
    guest = await enter(hub, "news")
    await hang_up(guest)
    speaker = await hub.socket()
    for number in range(10):
        await speaker.publish("news", {"json": number})
    back, restored = await restore(hub, guest.key)
    assert [channel["recovered"] for channel in restored["channels"]] == [False]
    assert (await back.socket.expect("Publish"))["payload"] == {"json": 7}


async def test_the_session_can_come_back_again_and_again(hub: RunningHub) -> None:
    guest = await enter(hub, "news")
    for _ in range(5):
        await hang_up(guest)
        guest, restored = await restore(hub, guest.key)
        assert restored["subscribedChannels"] == ["news"]


async def test_what_was_unsubscribed_does_not_come_back(hub: RunningHub) -> None:
    guest = await enter(hub, "a", "b")
    await guest.socket.send("Unsubscribe", reqID=2, channels=["a"])
    await guest.socket.find("Unsubscribe")
    await hang_up(guest)
    _, restored = await restore(hub, guest.key)
    assert restored["subscribedChannels"] == ["b"]


# -- the key ---------------------------------------------------------------------------------------


async def test_a_key_works_once(hub: RunningHub) -> None:
    guest = await enter(hub, "news")
    await hang_up(guest)
    back, _ = await restore(hub, guest.key)
    await answered(back.socket)
    await refused(hub, guest.key)
    await answered(back.socket)
    assert back.key != guest.key


async def test_the_old_key_works_until_the_first_frame_so_that_a_lost_reply_strands_nobody(
    hub: RunningHub,
) -> None:
    guest = await enter(hub, "news")
    await hang_up(guest)
    lost, _ = await restore(hub, guest.key)
    back, restored = await restore(hub, guest.key)
    assert back.session_id == lost.session_id == guest.session_id
    assert restored["subscribedChannels"] == ["news"]
    code, reason = await lost.socket.closed()
    assert code == 4415
    assert "session_replaced" in reason
    await refused(hub, lost.key)
    await answered(back.socket)
    await refused(hub, guest.key)


async def test_only_one_of_two_that_use_a_key_at_once_stays(hub: RunningHub) -> None:
    guest = await enter(hub, "news")
    await hang_up(guest)
    await hub.server.node.restore_keys.flush()
    first, second = await hub.socket(), await hub.socket()
    await asyncio.gather(
        first.send("SessionRestore", restoreKey=guest.key),
        second.send("SessionRestore", restoreKey=guest.key),
    )
    await hub.server.node.restore_keys.flush()
    for socket in (first, second):
        await socket.send("Ping", reqID=3)
        while (await socket.next())["event"] not in ("Pong", "Disconnect"):
            pass
    sessions = hub.server.node.hub("acme").sessions.values()
    assert sum(session.identity.user_id == "ann" for session in sessions) == 1


async def test_the_new_key_ends_the_old_one_even_if_no_other_frame_came_between(
    hub: RunningHub,
) -> None:
    guest = await enter(hub, "news")
    await hang_up(guest)
    second, _ = await restore(hub, guest.key)
    await hang_up(second)
    third, _ = await restore(hub, second.key)
    await refused(hub, guest.key)
    await answered(third.socket)


async def test_an_old_key_that_is_used_again_ends_the_key_of_the_lost_reply(
    hub: RunningHub,
) -> None:
    guest = await enter(hub, "news")
    await hang_up(guest)
    lost, _ = await restore(hub, guest.key)
    await hang_up(lost)
    await hub.server.node.restore_keys.flush()
    back, _ = await restore(hub, guest.key)
    await refused(hub, lost.key)
    await answered(back.socket)


async def test_a_stolen_key_is_useless_after_its_owner_came_back(hub: RunningHub) -> None:
    guest = await enter(hub, "news")
    stolen = guest.key
    await hang_up(guest)
    back, _ = await restore(hub, guest.key)
    await answered(back.socket)
    await hub.server.node.restore_keys.flush()
    thief = await refused(hub, stolen)
    await thief.send("Subscribe", reqID=1, channels=[{"channel": "u:ann"}])
    await answered(back.socket)
    assert hub.server.node.hub("acme").sessions[guest.session_id].identity.user_id == "ann"


@pytest.mark.parametrize("key", ["", "x", "ключ", "k" * 100_000, "\u0000", "../../etc/passwd"])
async def test_a_key_that_was_never_given_out_is_refused(hub: RunningHub, key: str) -> None:
    socket = await hub.socket()
    await socket.send("SessionRestore", restoreKey=key, reqID=5)
    error = (await socket.expect("Error"))["error"]
    assert error["code"] in ("restore_failed", "malformed", "bad_request")
    await answered(socket)


async def test_a_key_of_another_hub_is_refused_and_not_spent(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub("acme"), open_hub("other"))
    guest = await enter(hub, "news")
    await hang_up(guest)
    await refused(hub, guest.key, name="other")
    _, restored = await restore(hub, guest.key)
    assert restored["userID"] == "ann"


async def test_a_key_expires(start_server: StartHub) -> None:
    clock = FakeClock()
    hub = await start_server(clock=clock, session__restoreTtl=60)
    early, late = await enter(hub, "news"), await enter(hub, "news")
    await hang_up(early)
    await hang_up(late)
    await answered(await hub.socket())
    clock.advance(59)
    await restore(hub, early.key)
    clock.advance(2)
    await refused(hub, late.key)


async def test_only_the_hash_of_a_key_is_on_disk(start_server: StartHub, tmp_path: Path) -> None:
    hub = await start_server()
    guest = await enter(hub, "news")
    await hub.server.node.restore_keys.flush()
    await hang_up(guest)
    back, _ = await restore(hub, guest.key)
    await hub.server.node.restore_keys.flush()
    data = b"".join(file.read_bytes() for file in (tmp_path / "data").rglob("*") if file.is_file())
    assert hashlib.sha256(back.key.encode()).digest() in data
    for key in (guest.key, back.key):
        assert key.encode() not in data


# -- what is checked again -------------------------------------------------------------------------


async def test_an_expired_token_ends_the_way_back(start_server: StartHub) -> None:
    clock = FakeClock()
    hub = await start_server(clock=clock, session__restoreTtl=600)
    guest = await enter(hub, "news", token=hub.token(ttl=60))
    await hang_up(guest)
    clock.advance(61)
    await refused(hub, guest.key, "invalid_token")


async def test_access_that_was_lost_meanwhile_does_not_come_back(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(namespaces={"club": OPEN}))
    guest = await enter(hub, "news", "club:one")
    await hang_up(guest)
    await hub.server.directory.put("acme", "rules", "of-club", PRIVATE)
    back, restored = await restore(hub, guest.key)
    assert restored["subscribedChannels"] == ["news"]
    (failure,) = restored["failures"]
    assert failure["channel"] == "club:one"
    assert failure["error"]["code"] == "not_permitted"
    service = await hub.socket(token=hub.token(grants=(Grant("club:*", publish=True),)))
    await service.publish("club:one", {"json": "secret"})
    await service.publish("news", {"json": "open"})
    assert (await back.socket.expect("Publish"))["payload"] == {"json": "open"}


async def test_a_hub_can_switch_restore_off(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub("acme"), open_hub("strict", session_restore=False))
    socket = await hub.socket("strict", token=hub.token(hub="strict"))
    await answered(socket)
    guest = await enter(hub)
    await hang_up(guest)
    settings = HubSettings(allow_anonymous=True, default_rules="default", session_restore=False)
    await hub.server.directory.put("acme", "hub", "", settings)
    await refused(hub, guest.key)


async def test_after_a_failure_the_client_authenticates_on_the_same_socket(
    hub: RunningHub,
) -> None:
    socket = await refused(hub, "never given out")
    await socket.send("Auth", reqID=6, token=hub.token("bob"))
    assert (await socket.expect("Auth"))["userID"] == "bob"
    assert (await socket.expect("SessionRestore"))["restoreKey"]
    assert (await socket.subscribe("news"))["subscribedChannels"] == ["news"]


async def test_a_session_that_has_authenticated_cannot_become_another(hub: RunningHub) -> None:
    guest, other = await enter(hub), await enter(hub, token=hub.token("bob"))
    await hang_up(guest)
    await other.socket.send("SessionRestore", restoreKey=guest.key, reqID=5)
    assert (await other.socket.find("Error"))["error"]["code"] == "restore_failed"
    _, restored = await restore(hub, guest.key)
    assert restored["userID"] == "ann"


# -- the old connection ----------------------------------------------------------------------------


async def test_the_old_connection_is_replaced_and_presence_does_not_flap(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(rules=SOCIAL))
    watcher = await hub.socket()
    await watcher.subscribe("room")
    guest = await enter(hub, "room")
    while (await watcher.find("Join"))["presence"][0]["sessionID"] != guest.session_id:
        pass
    back, restored = await restore(hub, guest.key)
    assert back.session_id == guest.session_id
    code, reason = await guest.socket.closed()
    assert (code, reason.split(":")[0]) == (4415, "session_replaced")
    assert guest.socket.backlog[-1]["payload"]["reconnect"] is False
    assert {m["sessionID"] for m in (await back.socket.find("Presence"))["presence"]} >= {
        guest.session_id
    }
    assert (await back.socket.find("Occupancy"))["count"] == 2
    await back.socket.publish("room", {"json": "hello"})
    heard = []
    while True:
        envelope = await watcher.next()
        heard.append(envelope["event"])
        if envelope["event"] == "Publish":
            break
    assert "Leave" not in heard
    assert "Join" not in heard
    await watcher.send("Presence", channel="room", reqID=4)
    present = (await watcher.find("Presence"))["presence"]
    assert len(present) == 2
    assert hub.server.node.hub("acme").feeds["room"].subscribers == 2
    await hang_up(back)
    assert (await watcher.find("Leave"))["presence"][0]["sessionID"] == guest.session_id
    assert restored["subscribedChannels"] == ["room"]


async def test_a_client_that_says_it_may_come_back_does_and_presence_does_not_flap(
    start_hub: StartHub,
) -> None:
    """A page in the back/forward cache closes its socket with 4000."""
    hub = await start_hub(open_hub(rules=SOCIAL))
    watcher = await hub.socket()
    await watcher.subscribe("room")
    guest = await enter(hub, "room")
    while (await watcher.find("Join"))["presence"][0]["sessionID"] != guest.session_id:
        pass
    await guest.socket.connection.close(4000)
    back, _ = await restore(hub, guest.key)
    await back.socket.publish("room", {"json": "again"})
    heard: list[dict[str, Any]] = []
    while not heard or heard[-1]["event"] != "Publish":
        heard.append(await watcher.next())
    assert {"Leave", "Join"}.isdisjoint(each["event"] for each in heard)
    assert hub.server.node.hub("acme").feeds["room"].subscribers == 2
    assert len(hub.server.node.hub("acme").sessions) == hub.server.node.session_count == 2
    await hang_up(back)
    assert (await watcher.find("Leave"))["presence"][0]["sessionID"] == guest.session_id


async def test_a_client_that_may_come_back_and_does_not_leaves_after_a_while(
    start_hub: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub.gateways.websocket.RETURN_SECONDS", 0.05)
    hub = await start_hub(open_hub(rules=SOCIAL))
    watcher = await hub.socket()
    await watcher.subscribe("room")
    guest = await enter(hub, "room")
    await guest.socket.connection.close(4000)
    assert (await watcher.find("Leave"))["presence"][0]["sessionID"] == guest.session_id
    back, _ = await restore(hub, guest.key)  # the key is as good as ever
    assert back.session_id == guest.session_id


async def test_a_session_that_cannot_be_restored_ends_with_its_connection(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(rules=SOCIAL))
    watcher, anonymous = await hub.socket(), await hub.socket()
    await watcher.subscribe("room")
    await anonymous.subscribe("room")
    await anonymous.connection.close(4000)
    await watcher.find("Leave")


async def test_a_replaced_connection_hears_nothing_more(hub: RunningHub) -> None:
    guest = await enter(hub, "news")
    back, _ = await restore(hub, guest.key)
    await back.socket.publish("news", {"json": 1})
    await guest.socket.closed()
    assert "Publish" not in [envelope["event"] for envelope in guest.socket.backlog]


# -- restarts --------------------------------------------------------------------------------------


async def test_sessions_survive_a_graceful_restart_of_the_server(tmp_path: Path) -> None:
    kept = msgspec.structs.replace(STORED, presence=True)
    async with RestartingHub(tmp_path, open_hub(namespaces={"kept": kept})) as life:
        hub = await life.restart()
        guest = await enter(hub, "kept:a", "live", token=hub.token("ann", colour="red"))
        speaker = await hub.socket()
        await speaker.publish("kept:a", {"json": 1}, store=True)
        await speaker.publish("live", {"json": 1})
        hub = await life.restart()
        speaker = await hub.socket()
        await speaker.publish("kept:a", {"json": 2}, store=True)
        back, restored = await restore(hub, guest.key)
        assert back.session_id == guest.session_id
        assert restored["extra"] == {"colour": "red"}
        recovered = {each["channel"]: each["recovered"] for each in restored["channels"]}
        assert recovered == {"kept:a": True, "live": False}
        assert (await back.socket.find("Publish"))["payload"] == {"json": 2}
        await speaker.publish("live", {"json": "again"})
        assert (await back.socket.find("Publish"))["payload"] == {"json": "again"}
        await answered(back.socket)
        await refused(hub, guest.key)


@pytest.mark.spec("SEC-03")
@pytest.mark.parametrize(("seconds", "answer"), [(55, "SessionRestored"), (61, "restore_failed")])
async def test_keys_of_a_killed_node_last_as_long_as_those_of_a_lost_connection(
    tmp_path: Path, seconds: float, answer: str
) -> None:
    """The session was connected for longer than its key outlives it."""
    async with Cluster(tmp_path, restore_seconds=60) as cluster:
        east, west = cluster.nodes.values()
        guest = east.connect(identity=Identity(user_id="ann"))
        await guest.next(RestoreKey)
        for _ in range(50):
            await east.node.restore_keys.flush()
            cluster.clock.advance(4)
            await cluster.store.delete_expired(int(cluster.clock.now() * 1000))
        await east.node.restore_keys.flush()
        cluster.clock.advance(seconds)  # east does not write any more
        back = west.connect()
        receive(back, Restore(key_of(guest)))
        await back.until(lambda: back.all(SessionRestored) or back.all(Failed))
        said = [each.error.code for each in back.all(Failed)] or ["SessionRestored"]
        assert said == [answer]


# -- moments that only the engine can show ---------------------------------------------------------


def key_of(connection: FakeConnection) -> str:
    return connection.all(RestoreKey)[-1].restore_key


async def test_a_spent_key_stays_spent_while_that_is_being_written(tmp_path: Path) -> None:
    async with Alone(tmp_path) as alone:
        guest = alone.node.connect(identity=Identity(user_id="ann"))
        await guest.next(RestoreKey)
        key = key_of(guest)
        await alone.node.node.restore_keys.flush()
        back = alone.node.connect()
        receive(back, Restore(key))
        await back.next(SessionRestored)
        receive(back, Ping())
        writing, go_on = asyncio.Event(), asyncio.Event()
        save = alone.store.save_sessions

        async def slow_save(snapshots: list[SessionSnapshot]) -> None:
            writing.set()
            await go_on.wait()
            await save(snapshots)

        alone.store.save_sessions = slow_save  # type: ignore[method-assign,assignment]
        flushing = asyncio.create_task(alone.node.node.restore_keys.flush())
        await writing.wait()
        thief = alone.node.connect()
        receive(thief, Restore(key))
        assert (await thief.next(Failed)).error.code == "restore_failed"
        go_on.set()
        await flushing


async def test_a_connection_that_breaks_during_its_restore_leaves_the_key_usable(
    tmp_path: Path,
) -> None:
    async with Alone(tmp_path) as alone:
        guest = alone.node.connect(identity=Identity(user_id="ann"))
        await guest.next(RestoreKey)
        assert guest.session is not None
        node, key, name = alone.node.node, key_of(guest), guest.session.id
        node.close(guest.session)
        await node.restore_keys.flush()
        for turns in range(6):
            broken = alone.node.connect()
            assert broken.session is not None
            receive(broken, Restore(key))
            for _ in range(turns):
                await asyncio.sleep(0)
            node.close(broken.session)
        back = alone.node.connect()
        receive(back, Restore(key))
        assert (await back.next(SessionRestored)).session_id == name
        assert [s.closed for s in node.hub("acme").sessions.values()] == [False]
