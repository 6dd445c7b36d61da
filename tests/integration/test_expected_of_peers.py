"""What users of other hubs expect: presence data, tokens for channels, idempotency keys."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.clock import FakeClock
from harness.restarting import RestartingHub
from harness.running_hub import OPEN, RunningHub, Socket, StartHub, open_hub
from hubbub.client import Options, connect
from hubbub.domain.permissions import Grant
from hubbub.domain.rules import Rules

pytestmark = pytest.mark.spec("LIVE-21")

PRESENT = msgspec.structs.replace(OPEN, presence=True)
STORED = msgspec.structs.replace(OPEN, store=True)
CLOSED = Rules()


# -- presence data ---------------------------------------------------------------------------------


async def test_presence_shows_what_a_client_says_of_itself_and_what_it_changes(
    start_server: StartHub,
) -> None:
    hub = await start_server(open_hub(rules=PRESENT))
    watcher = await hub.socket()
    await watcher.subscribe("room")
    await watcher.find("Presence")
    guest = await hub.socket()
    await guest.subscribe("room", presence={"name": "Ann"})
    (joined,) = (await _news(watcher, "Join"))["presence"]
    assert joined["data"] == {"name": "Ann"}
    assert "userID" not in joined  # nobody vouches for the name
    await guest.send("Presence", reqID=5, channel="room", data={"name": "Ann", "typing": True})
    answer = await guest.find("Presence")
    while answer.get("reqID") != 5:
        answer = await guest.find("Presence")
    assert {"name": "Ann", "typing": True} in [each.get("data") for each in answer["presence"]]
    (changed,) = (await _news(watcher, "Join"))["presence"]
    assert changed["data"] == {"name": "Ann", "typing": True}
    assert (changed["sessionID"], changed["ts"]) == (joined["sessionID"], joined["ts"])


async def _news(socket: Socket, event: str) -> dict[str, Any]:
    """The next event about somebody who said something of themselves."""
    while True:
        found = await socket.find(event)
        if any("data" in each for each in found["presence"]):
            return found


async def test_presence_data_has_a_bound_and_needs_a_subscription(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=PRESENT))
    socket = await hub.socket()
    refused = await socket.subscribe("room", presence={"text": "x" * 5000})
    assert refused["failures"][0]["error"]["code"] == "invalid_attribute"
    await socket.send("Presence", reqID=2, channel="room", data={"name": "Ann"})
    assert (await socket.find("Presence"))["error"]["code"] == "not_found"


@pytest.mark.spec("OPS-03", "SEC-01")
async def test_presence_data_that_no_node_could_keep_is_refused(start_hub: StartHub) -> None:
    """The snapshots of all sessions are written together: one that fails would fail them all."""
    hub = await start_hub(open_hub(rules=PRESENT))
    socket = await hub.socket()
    deep: Any = {}
    for _ in range(400):
        deep = {"in": deep}
    for data in ({"n": 2**64}, {"in": [-(2**63) - 1]}, deep):
        (failure,) = (await socket.subscribe("room", presence=data))["failures"]
        assert failure["error"]["code"] == "invalid_attribute"
    await socket.subscribe("room")
    assert "error" not in await socket.find("Presence")
    await socket.send("Presence", channel="room", data={"n": 2**64}, reqID=9)
    assert (await socket.find("Presence"))["error"]["code"] == "invalid_attribute"
    await hub.server.node.restore_keys.flush()


async def test_presence_data_is_restored_with_the_session_and_ends_with_the_subscription(
    start_server: StartHub,
) -> None:
    hub = await start_server(open_hub(rules=PRESENT))
    socket = await hub.socket()
    await socket.send("Auth", reqID=1, token=hub.token("ann"))
    key = (await socket.find("SessionRestore"))["restoreKey"]
    await socket.subscribe("room", presence={"name": "Ann"})
    await socket.find("Presence")
    await socket.connection.close()
    back = await hub.socket()
    await back.send("SessionRestore", reqID=1, restoreKey=key)
    (ann,) = (await back.find("Presence"))["presence"]
    assert ann["data"] == {"name": "Ann"}
    await back.send("Unsubscribe", reqID=2, channels=["room"])
    await back.find("Unsubscribe")
    await back.subscribe("room")
    (ann,) = (await back.find("Presence"))["presence"]
    assert "data" not in ann


@pytest.mark.parametrize("encoding", ["json", "protobuf"])
async def test_the_client_shows_presence_data_in_both_encodings(
    start_hub: StartHub, encoding: Any
) -> None:
    hub = await start_hub(open_hub(rules=PRESENT))
    options = Options(encoding=encoding)
    async with connect(f"ws://{hub.address}", hub="acme", options=options) as client:
        await client.subscribe("room", presence={"name": "Ann", "age": 7})
        await client.show("room", {"name": "Ann", "age": 8})
        (ann,) = await client.presence("room")
        assert ann.data == {"name": "Ann", "age": 8}


async def test_an_event_stream_shows_presence_data(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=PRESENT))
    query = {"channel": "room", "presence": '{"name":"Ann"}'}
    async with hub.http.get("/v1/hubs/acme/events", params=query) as stream:
        async for line in stream.content:
            if b'"presence"' in line:
                break
        async with hub.http.get("/v1/hubs/acme/channels/room/presence") as answer:
            (ann,) = (await answer.json())["presence"]
        assert ann["data"] == {"name": "Ann"}
    async with hub.http.get("/v1/hubs/acme/events", params=query | {"presence": "7"}) as refused:
        assert refused.status == 400
    deep = {"presence": '{"a":' + "[" * 5000}
    async with hub.http.get("/v1/hubs/acme/events", params=query | deep) as refused:
        assert refused.status == 400


# -- tokens for channels ---------------------------------------------------------------------------


def channel_token(hub: RunningHub, user: str | None, channel: str, ttl: float = 600) -> str:
    return hub.token(user, grants=(Grant(channel, subscribe=True),), ttl=ttl)


async def test_a_token_for_a_channel_opens_that_channel_and_no_other(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=CLOSED))
    speaker = await hub.socket(token=hub.token("eve", grants=(Grant("*", True, True),)))
    socket = await hub.socket(token=hub.token("ann"))
    assert (await socket.subscribe("secret"))["failures"]
    for user in (None, "ann"):
        token = channel_token(hub, user, "secret")
        assert not (await socket.subscribe("secret", token=token))["failures"]
    await speaker.publish("secret", {"json": 1})
    assert (await socket.find("Publish"))["payload"] == {"json": 1}
    await socket.send("History", reqID=3, channel="secret")
    assert "error" not in await socket.find("History")
    for wrong, code in (
        (channel_token(hub, None, "other"), "not_permitted"),
        (channel_token(hub, "bob", "secret2"), "invalid_token"),
        ("nonsense", "invalid_token"),
    ):
        (failure,) = (await socket.subscribe("secret2", token=wrong))["failures"]
        assert failure["error"]["code"] == code
    (failure,) = (await socket.subscribe("sec*", token=token))["failures"]
    assert failure["error"]["code"] in ("bad_request", "not_permitted")


@pytest.mark.spec("SEC-01")
async def test_tokens_of_subscriptions_that_fail_do_not_pile_up(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=CLOSED), session__maxChannels=2)
    socket = await hub.socket(token=hub.token("ann"))
    token = channel_token(hub, None, "room:*")
    first = await socket.subscribe(*[f"room:{each}" for each in range(9)], token=token)
    assert first["subscribedChannels"] == ["room:0", "room:1"]
    assert {each["error"]["code"] for each in first["failures"]} == {"too_many_channels"}
    await socket.subscribe("room:1", token=token, presence={"x": "x" * 100_000})
    (session,) = hub.server.node.hub("acme").sessions.values()
    assert list(session.channel_readers or ()) == ["room:0", "room:1"]
    await socket.send("Unsubscribe", reqID=2, channels=["room:0", "room:1"])
    await socket.find("Unsubscribe")
    assert not session.channel_readers


async def test_a_subscription_by_token_ends_with_the_token(tmp_path: Path) -> None:
    clock = FakeClock()
    async with RestartingHub(tmp_path, open_hub(rules=CLOSED), clock=clock) as life:
        hub = await life.restart()
        socket = await hub.socket(token=hub.token("ann", ttl=10_000))
        token = channel_token(hub, "ann", "secret", ttl=60)
        assert not (await socket.subscribe("secret", token=token))["failures"]
        sweep = hub.server.node.heartbeats.sweep
        for _ in range(40):  # each session is looked at once in a while
            sweep(clock.monotonic())
        clock.advance(59)
        for _ in range(40):
            sweep(clock.monotonic())
        clock.advance(2)
        sweep(clock.monotonic())  # at its end, not at the next look
        (failure,) = (await socket.find("Unsubscribe"))["failures"]
        assert failure["channel"] == "secret"
        (failure,) = (await socket.subscribe("secret", token=token))["failures"]
        assert failure["error"]["code"] == "invalid_token"


@pytest.mark.spec("LIVE-21", "SEC-01")
async def test_who_subscribes_again_right_after_the_end_of_the_token_does_not_stay(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    async with RestartingHub(tmp_path, open_hub(rules=CLOSED), clock=clock) as life:
        hub = await life.restart()
        socket = await hub.socket(token=hub.token("ann", ttl=10_000))
        token = channel_token(hub, "ann", "secret", ttl=60)
        assert not (await socket.subscribe("secret", token=token))["failures"]
        clock.advance(61)
        (failure,) = (await socket.subscribe("secret"))["failures"]
        assert failure["error"]["code"] == "not_permitted"
        for _ in range(40):
            hub.server.node.heartbeats.sweep(clock.monotonic())
        (session,) = hub.server.node.hub("acme").sessions.values()
        assert not session.feeds


@pytest.mark.parametrize("anonymous", [True, False])
async def test_a_short_token_ends_on_time(tmp_path: Path, anonymous: bool) -> None:
    clock = FakeClock()
    configuration = open_hub(rules=CLOSED, allow_anonymous=anonymous)
    async with RestartingHub(tmp_path, configuration, clock=clock) as life:
        hub = await life.restart()
        own = await hub.socket(token=hub.token("ann", grants=(Grant("secret", True, True),), ttl=3))
        shown = await hub.socket(token=hub.token("bob", ttl=10_000))
        token = channel_token(hub, None, "secret", ttl=3)
        assert not (await own.subscribe("secret"))["failures"]
        assert not (await shown.subscribe("secret", token=token))["failures"]
        clock.advance(4)
        hub.server.node.heartbeats.sweep(clock.monotonic())
        assert (await shown.find("Unsubscribe"))["failures"]
        if anonymous:
            assert (await own.find("Unsubscribe"))["failures"]
        else:
            assert (await own.find("Disconnect"))["code"] == "invalid_token"


async def test_another_user_on_the_same_socket_has_no_tokens_of_the_first(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(rules=CLOSED))
    socket = await hub.socket(token=hub.token("ann"))
    await socket.subscribe("secret", token=channel_token(hub, "ann", "secret"))
    await socket.send("Auth", reqID=2, token=hub.token("bob"))
    (failure,) = (await socket.find("Unsubscribe"))["failures"]
    assert failure["channel"] == "secret"


async def test_a_restored_session_has_its_tokens_for_channels(start_server: StartHub) -> None:
    hub = await start_server(open_hub(rules=CLOSED))
    socket = await hub.socket()
    await socket.send("Auth", reqID=1, token=hub.token("ann"))
    key = (await socket.find("SessionRestore"))["restoreKey"]
    await socket.subscribe("secret", token=channel_token(hub, "ann", "secret"))
    await socket.connection.close()
    back = await hub.socket()
    await back.send("SessionRestore", reqID=1, restoreKey=key)
    assert (await back.find("SessionRestored"))["subscribedChannels"] == ["secret"]


@pytest.mark.parametrize("encoding", ["json", "protobuf"])
async def test_the_client_and_event_streams_show_tokens(start_hub: StartHub, encoding: Any) -> None:
    hub = await start_hub(open_hub(rules=CLOSED))
    token = channel_token(hub, None, "secret")
    options = Options(encoding=encoding)
    async with connect(f"ws://{hub.address}", hub="acme", options=options) as client:
        await client.subscribe("secret", token=lambda channel: channel_token(hub, None, channel))
    query = [("channel", "a"), ("channel", "secret"), ("channelToken", ""), ("channelToken", token)]
    async with hub.http.get("/v1/hubs/acme/events", params=query) as stream:
        async for line in stream.content:
            if line.startswith(b"data:") and b"subscribedChannels" in line:
                break
        assert json.loads(line[5:])["subscribedChannels"] == ["secret"]


# -- idempotency keys ------------------------------------------------------------------------------


@pytest.mark.parametrize("rules", [OPEN, STORED], ids=["live", "stored"])
async def test_a_repeat_under_the_same_key_is_answered_like_the_original(
    start_hub: StartHub, rules: Rules
) -> None:
    hub = await start_hub(open_hub(rules=rules))
    socket = await hub.socket(token=hub.token("ann"))
    item = {"channel": "news", "payload": {"json": 1}, "idempotencyKey": "k", "reqID": 1}
    item["extra"] = {"store": rules.store}
    first, again = [await _publish(socket, item) for _ in range(2)]
    assert first["success"]
    assert "duplicate" not in first
    assert again["duplicate"] is True
    assert (again["msgID"], again["channelSerial"]) == (first["msgID"], first["channelSerial"])
    other = await _publish(socket, item | {"payload": {"json": 2}})
    assert other["error"]["code"] == "sequence_reused"
    second = await _publish(socket, item | {"idempotencyKey": "l"})
    assert second["channelSerial"] == "2"
    stranger = await hub.socket(token=hub.token("bob"))
    assert "duplicate" not in await _publish(stranger, item)


async def _publish(socket: Socket, item: dict[str, Any]) -> dict[str, Any]:
    await socket.send("Publish", publishes=[item])
    result: dict[str, Any] = (await socket.find("Ack"))["published"][0]
    return result


async def test_a_stored_key_is_known_after_a_restart_and_after_years(tmp_path: Path) -> None:
    clock = FakeClock()
    async with RestartingHub(tmp_path, open_hub(rules=STORED), clock=clock) as life:
        receipts = []
        for _ in range(2):
            hub = await life.restart()
            async with connect(f"ws://{hub.address}", hub="acme") as client:
                receipts.append(
                    await client.publish("news", {"a": 1}, store=True, idempotency_key="k")
                )
                clock.advance(3 * 365 * 86400)
        assert [each.duplicate for each in receipts] == [False, True]
        assert receipts[0].id == receipts[1].id


async def test_many_at_once_keep_their_order_and_are_stored_once(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=STORED), session__messagesPerSecond=0)
    async with connect(f"ws://{hub.address}", hub="acme") as client:
        publishing = [
            client.publish("news", number // 2, store=True, idempotency_key=f"k{number // 2}")
            for number in range(200)
        ]
        receipts = await asyncio.gather(*publishing)
        page = await client.history("news", limit=200)
    assert sum(each.duplicate for each in receipts) == 100
    assert [each.data for each in page.messages] == list(range(100))


async def test_http_takes_the_key_as_a_header_and_in_a_batch(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=STORED))
    path, headers = "/v1/hubs/acme/channels/news/messages", {"Idempotency-Key": "k"}
    answers = []
    for _ in range(2):
        async with hub.http.post(f"{path}?store=true", data="x", headers=headers) as answer:
            answers.append(await answer.json())
    assert answers[1] == answers[0] | {"duplicate": True}
    item = {"channel": "news", "payload": {"text": "x"}, "extra": {"store": True}}
    batch = {"publishes": [item | {"idempotencyKey": "b"}] * 2}
    async with hub.http.post("/v1/hubs/acme/messages", json=batch) as answer:
        first, again = (await answer.json())["published"]
    assert again["duplicate"] is True
    assert again["msgID"] == first["msgID"]


@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb"])
async def test_a_key_that_is_none_is_refused(start_hub: StartHub, key: str) -> None:
    hub = await start_hub(open_hub())
    item = {"channel": "news", "payload": {"json": 1}, "idempotencyKey": key, "reqID": 1}
    result = await _publish(await hub.socket(), item)
    assert result["error"]["code"] == "invalid_attribute"
