"""Limits: each is kept, says so with its own code, and hurts nobody else."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from harness.admin import HUB as ACME
from harness.admin import admin_of
from harness.clock import FakeClock
from harness.raw import HANDSHAKE, TEXT, RawConnection, RawWebSocket, client_frame
from harness.running_hub import RunningHub, StartHub, open_hub
from harness.topics import HttpTopic, topic_hub
from hubbub.domain.rules import Quotas, Rules

KEPT = Rules(public=True, client_publish=True, allow_anonymous=True, store=True)


def envelope(event: str, **payload: Any) -> bytes:
    return json.dumps({"event": event, "payload": payload}).encode()


def metric(hub: RunningHub, name: str) -> int:
    value: int = getattr(hub.server.node.counters["acme"], name)
    return value


# -- per session --------------------------------------------------------------------------------


@pytest.mark.spec("LIVE-16")
async def test_more_messages_than_allowed_are_refused_until_time_passes(
    start_server: StartHub,
) -> None:
    clock = FakeClock()
    hub = await start_server(clock=clock, session__messagesPerSecond=5, session__messageBurst=10)
    socket = await hub.socket()
    results = [await socket.publish("a", {"json": n}) for n in range(12)]
    codes = [each.get("error", {}).get("code") for each in results]
    assert codes == [None] * 10 + ["rate_limited"] * 2
    assert results[-1]["error"]["retry"] is True
    for number in range(50):  # heartbeats are exempt
        await socket.send("Ping", reqID=number + 1)
        assert await socket.expect("Pong") == {"reqID": number + 1}
    await socket.send("Subscribe", reqID=3, channels=[{"channel": "a"}])
    assert (await socket.expect("Error"))["error"]["code"] == "rate_limited"
    clock.advance(1)
    results = [await socket.publish("a", {"json": n}) for n in range(6)]
    assert [each["success"] for each in results] == [True] * 5 + [False]


@pytest.mark.spec("LIVE-16")
async def test_who_floods_regardless_is_cut_off_and_the_others_are_not(
    start_server: StartHub,
) -> None:
    hub = await start_server(session__messagesPerSecond=5, session__messageBurst=10)
    calm = await hub.socket()
    await calm.subscribe("a")
    async with await RawWebSocket.connect(hub.address) as flooding:
        item = {"channel": "a", "payload": {"json": 1}}
        flooding.send(client_frame(TEXT, envelope("Publish", publishes=[item])) * 100)
        assert await flooding.close_code() == 4429
    heard = 0
    await calm.send("Ping", reqID=1)
    while (await calm.next())["event"] != "Pong":
        heard += 1
    assert 10 <= heard < 20


@pytest.mark.spec("LIVE-16")
async def test_a_flood_of_garbage_counts_as_messages(start_server: StartHub) -> None:
    hub = await start_server(session__messagesPerSecond=5, session__messageBurst=10)
    async with await RawWebSocket.connect(hub.address) as flooding:
        flooding.send(client_frame(TEXT, b"{") * 100)
        assert await flooding.close_code() == 4429


@pytest.mark.spec("LIVE-16")
async def test_a_session_follows_only_so_many_channels(start_server: StartHub) -> None:
    hub = await start_server(session__maxChannels=2)
    socket = await hub.socket()
    await socket.subscribe("a")
    answer = await socket.subscribe("b", "c")
    assert answer["subscribedChannels"] == ["b"]
    error = answer["failures"][0]["error"]
    assert (error["code"], error["retry"]) == ("too_many_channels", False)
    await socket.send("Unsubscribe", channels=["a"])
    await socket.find("Unsubscribe")
    assert (await socket.subscribe("c"))["subscribedChannels"] == ["c"]


@pytest.mark.spec("LIVE-16")
async def test_a_payload_over_the_limit_is_refused_by_name(start_server: StartHub) -> None:
    """A frame has room for an envelope; the payload in it is judged by itself (base64 shrinks)."""
    hub = await start_server(connection__ws__maxMessageBytes=2048)
    async with hub.http.post("/v1/hubs/acme/channels/a/messages", data=b"x" * 2049) as answer:
        assert answer.status == 413
        assert (await answer.json())["error"]["code"] == "too_large"


# -- slow consumers -----------------------------------------------------------------------------


@pytest.mark.spec("LIVE-16", "SEC-01")
@pytest.mark.parametrize("kind", ["websocket", "sse"])
async def test_a_slow_consumer_is_cut_off_with_its_code_and_the_others_lose_nothing(
    start_server: StartHub, kind: str
) -> None:
    hub = await start_server(
        connection__ws__maxMessageBytes=65536,
        connection__ws__sendBufferBytes=262144,
        connection__sse__sendBufferBytes=262144,
    )
    if kind == "websocket":
        slow: RawConnection = await RawWebSocket.connect(hub.address)
        slow.send(client_frame(TEXT, envelope("Subscribe", channels=[{"channel": "a"}])))
        await slow.read(2)
    else:
        slow = await RawConnection.open(hub.address)
        slow.request("GET /v1/hubs/acme/events?channel=a")
        await slow.until(b"event: Subscribe")
    slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
    others = [await hub.socket() for _ in range(3)]
    for other in others:
        await other.subscribe("a")
    text = "x" * 50_000
    sent = 0
    async with asyncio.timeout(20):
        while not metric(hub, "slow_consumers"):
            async with hub.http.post("/v1/hubs/acme/channels/a/messages", data=text) as answer:
                assert answer.status == 200
            sent += 1
            for other in others:
                assert (await other.find("Publish"))["channelSerial"] == str(sent)
    assert sent > 4  # it had its whole buffer
    assert sent < 24  # and the kernel's were not added to it without end
    slow.writer.transport.resume_reading()  # type: ignore[attr-defined]
    received = await slow.rest()
    assert b'"code":"slow_consumer"' in received
    assert b'"reconnect":true' in received
    if kind == "websocket":
        assert (4431).to_bytes(2, "big") + b"slow_consumer" in received[-200:]
    await slow.__aexit__()


@pytest.mark.spec("LIVE-16", "OPS-03")
async def test_a_client_that_never_reads_its_answers_is_cut_off_too(start_server: StartHub) -> None:
    hub = await start_server(
        session__messagesPerSecond=0,
        connection__ws__maxMessageBytes=65536,
        connection__ws__sendBufferBytes=131072,
    )
    async with await RawWebSocket.connect(hub.address) as client:
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        pings = client_frame(TEXT, b"\n".join([envelope("Ping", reqID=10**15)] * 1000))
        async with asyncio.timeout(20):
            while hub.server.node.session_count:
                client.send(pings)
                try:
                    await asyncio.wait_for(client.writer.drain(), 0.05)
                except (TimeoutError, ConnectionError):
                    await asyncio.sleep(0)
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        await client.rest()


# -- per hub ------------------------------------------------------------------------------------


@pytest.mark.spec("LIVE-16")
async def test_a_quota_of_sessions_holds_for_sockets_and_streams(start_server: StartHub) -> None:
    hub = await start_server(open_hub(quotas=Quotas(sessions=2)), open_hub("other"))
    first = await hub.socket()
    async with hub.http.get("/v1/hubs/acme/events?channel=a") as stream:
        assert stream.status == 200
        await stream.content.readuntil(b"event: Subscribe")
        third = await hub.raw_socket()
        said = await third.expect("Disconnect")
        assert (said["code"], said["reconnect"]) == ("quota_exceeded", True)
        assert (await third.closed())[0] == 4430
        await hub.socket("other")
    await first.connection.close()
    async with asyncio.timeout(5):
        while len(hub.server.node.hubs["acme"].sessions) > 1:
            await asyncio.sleep(0)
    await hub.socket()


@pytest.mark.spec("LIVE-16")
async def test_a_quota_of_messages_per_second_is_shared_by_the_whole_hub(
    start_server: StartHub,
) -> None:
    clock = FakeClock()
    hub = await start_server(
        open_hub(quotas=Quotas(messages_per_second=4)), open_hub("other"), clock=clock
    )
    one, two = await hub.socket(), await hub.socket()
    path = "/v1/hubs/acme/channels/a/messages"
    for socket in (one, two):
        assert (await socket.publish("a", {"json": 1}))["success"]
    for _ in range(2):
        async with hub.http.post(path, data="x") as answer:
            assert answer.status == 200
    assert (await one.publish("a", {"json": 1}))["error"]["code"] == "quota_exceeded"
    async with hub.http.post(path, data="x") as answer:
        assert answer.status == 429
        assert answer.headers["Retry-After"] == "1"
    other = await hub.socket("other")
    assert (await other.publish("a", {"json": 1}))["success"]
    clock.advance(1)
    assert (await one.publish("a", {"json": 1}))["success"]


@pytest.mark.spec("LIVE-16")
async def test_a_put_counts_as_one_message(start_server: StartHub) -> None:
    hub = await start_server(topic_hub(quotas=Quotas(messages_per_second=2)), clock=FakeClock())
    topic = HttpTopic(hub, "orders")
    for text in ("a", "b"):
        assert (await topic.put(text)).json["duplicate"] is False
    assert (await topic.put("c")).error == (429, "quota_exceeded")


@pytest.mark.spec("LIVE-16")
async def test_a_quota_of_deliveries_counts_subscribers(start_server: StartHub) -> None:
    clock = FakeClock()
    hub = await start_server(open_hub(quotas=Quotas(deliveries_per_second=4)), clock=clock)
    for _ in range(3):
        await (await hub.socket()).subscribe("a")
    publisher = await hub.socket()
    assert (await publisher.publish("a", {"json": 1}))["success"]
    assert (await publisher.publish("a", {"json": 2}))["error"]["code"] == "quota_exceeded"
    assert (await publisher.publish("empty", {"json": 3}))["success"]
    clock.advance(1)
    assert (await publisher.publish("a", {"json": 4}))["success"]


@pytest.mark.spec("LIVE-16")
async def test_more_subscribers_than_the_quota_of_a_second_can_still_be_reached(
    start_server: StartHub,
) -> None:
    clock = FakeClock()
    hub = await start_server(open_hub(quotas=Quotas(deliveries_per_second=2)), clock=clock)
    for _ in range(3):
        await (await hub.socket()).subscribe("a")
    publisher = await hub.socket()
    assert (await publisher.publish("a", {"json": 1}))["success"]
    assert not (await publisher.publish("a", {"json": 1}))["success"]
    clock.advance(2)
    assert (await publisher.publish("a", {"json": 1}))["success"]


@pytest.mark.spec("LIVE-16")
async def test_a_quota_of_stored_bytes_survives_restarts_and_counts_what_is_on_its_way(
    start_server: StartHub,
) -> None:
    limited = open_hub(rules=KEPT, quotas=Quotas(stored_bytes=2500))
    hub = await start_server(limited)
    socket = await hub.socket()
    item = {"channel": "a", "payload": {"text": "x" * 200}, "extra": {"store": True}, "reqID": 1}
    await socket.send("Publish", publishes=[item] * 8)
    results = (await socket.find("Ack"))["published"]
    codes = [each.get("error", {}).get("code") for each in results]
    assert codes == [None] * 5 + ["quota_exceeded"] * 3
    live = await socket.publish("a", {"text": "x" * 200})
    assert live["success"]  # what is not stored costs nothing
    await socket.connection.close()
    await hub.server.stop()
    again = await start_server(limited)
    socket = await again.socket()
    refused = await socket.publish("b", {"text": "x"}, store=True)
    assert refused["error"]["code"] == "quota_exceeded"


@pytest.mark.spec("LIVE-16", "LIVE-11")
async def test_a_quota_of_stored_bytes_set_later_counts_what_was_stored_before(
    start_server: StartHub,
) -> None:
    hub = await start_server(open_hub(rules=KEPT))
    socket = await hub.socket()
    assert (await socket.publish("a", {"text": "x" * 2000}, store=True))["success"]
    settings = open_hub(quotas=Quotas(stored_bytes=1000)).settings
    seen = (await admin_of(hub)("GET", ACME)).json
    assert (seen["storedBytes"] >= 2000, seen["overQuota"]) == (True, False)
    await hub.server.directory.put("acme", "hub", "", settings)
    refused = await socket.publish("a", {"text": "x"}, store=True)
    assert refused["error"]["code"] == "quota_exceeded"
    assert (await admin_of(hub)("GET", ACME)).json["overQuota"] is True
    assert 'hubbub_over_quota{hub="acme"} 1.0' in await hub.metrics()
    await hub.server.directory.put("acme", "hub", "", open_hub().settings)
    assert (await admin_of(hub)("GET", ACME)).json["overQuota"] is False
    await hub.server.owner.stored_bytes.count_again()
    assert 'hubbub_over_quota{hub="acme"} 0.0' in await hub.metrics()


@pytest.mark.spec("LIVE-16")
async def test_retained_messages_and_rows_without_messages_count_as_stored_bytes(
    start_server: StartHub,
) -> None:
    rules = Rules(retain=True, store=True, public=True, client_publish=True, allow_anonymous=True)
    hub = await start_server(open_hub(rules=rules, quotas=Quotas(stored_bytes=10_000)))
    socket = await hub.socket()

    async def retain(channel: str, size: int) -> str | None:
        answer = await socket.publish(channel, {"text": "x" * size}, retain=True)
        return None if answer["success"] else str(answer["error"]["code"])

    codes = [await retain(f"c{n}", 3000) for n in range(5)]
    assert codes == [None] * 2 + ["quota_exceeded"] * 3
    assert await hub.server.store.used_bytes("acme") < 10_500
    assert await retain("c1", 2000) is None, "it takes less than before"
    refused = await socket.publish("empty", {"text": ""}, store=True)
    while refused["success"]:  # a small message takes room, too
        refused = await socket.publish("empty", {"text": ""}, store=True)
    assert refused["error"]["code"] == "quota_exceeded"
    assert await hub.server.store.used_bytes("acme") < 10_500


# -- admission ----------------------------------------------------------------------------------


@pytest.mark.spec("OPS-04")
async def test_a_storm_of_connections_is_let_in_at_the_rate_that_can_be_served(
    start_server: StartHub,
) -> None:
    clock = FakeClock()
    hub = await start_server(clock=clock, listener__connectionsPerSecond=5)
    settled = await hub.socket()
    clock.advance(1)

    async def try_to_connect() -> int:
        async with await RawConnection.open(hub.address) as client:
            client.request("GET /v1/hubs/acme/socket", *HANDSHAKE)
            answer = await client.response()
            if answer.status == 503:
                assert answer.error == "overloaded"
                assert answer.headers["retry-after"] == "1"
            return answer.status

    statuses = await asyncio.gather(*[try_to_connect() for _ in range(40)])
    assert sorted(statuses) == [101] * 5 + [503] * 35
    async with hub.http.get("/v1/hubs/acme/events?channel=a") as stream:
        assert stream.status == 503
    async with hub.http.get("/v1/hubs/acme/socket") as told:  # browsers hide why a socket failed
        assert (told.status, told.headers["Retry-After"]) == (503, "1")
    await settled.send("Ping", reqID=1)  # who is in does not notice
    assert await settled.expect("Pong") == {"reqID": 1}
    async with hub.http.post("/v1/hubs/acme/channels/a/messages", data="x") as publish:
        assert publish.status == 200
    clock.advance(1)
    assert await try_to_connect() == 101
    clock.advance(10)
    for _ in range(20):  # asking takes nobody's place
        async with hub.http.get("/v1/hubs/acme/socket") as told:
            assert told.status == 426
    assert await try_to_connect() == 101


@pytest.mark.spec("OPS-04", "LIVE-16")
async def test_no_more_connections_than_places(start_server: StartHub) -> None:
    hub = await start_server(listener__maxConnections=3)
    sockets = [await hub.socket() for _ in range(2)]
    silent = await RawConnection.open(hub.address)  # connects and says nothing: takes a place too
    silent.request("GET /healthz")
    assert (await silent.response()).status == 200
    async with await RawConnection.open(hub.address) as one_too_many:
        answer = await one_too_many.response()
        assert (answer.status, answer.error) == (503, "overloaded")
        assert await one_too_many.rest() == b""
    await silent.__aexit__()
    await sockets[0].send("Ping", reqID=1)
    await sockets[0].expect("Pong")
    async with asyncio.timeout(5):
        while hub.server.listener.http_connections:
            await asyncio.sleep(0)
    await hub.socket()


@pytest.mark.spec("LIVE-16", "LIVE-13")
async def test_who_makes_up_for_a_lot_is_not_taken_for_slow(start_server: StartHub) -> None:
    """Replayed messages may be many times the send buffer; everything after them waits."""
    rules = msgspec.structs.replace(KEPT, presence=True, occupancy=True)
    hub = await start_server(open_hub(rules=rules), session__messagesPerSecond=0)
    for channel in ("a", "b"):
        item = {"channel": channel, "payload": {"text": "x" * 60_000}, "extra": {"store": True}}
        for _ in range(5):
            batch = {"publishes": [item] * 12}
            async with hub.http.post("/v1/hubs/acme/messages", json=batch) as answer:
                assert answer.status == 200
    wanted = [{"channel": "a", "serial": "0"}, {"channel": "b", "serial": "0"}]
    serials: dict[str, list[int]] = {"a": [], "b": []}
    async with await RawWebSocket.connect(hub.address) as reader:
        reader.send(client_frame(TEXT, envelope("Subscribe", channels=wanted)))
        assert (await reader.envelopes())[0]["event"] == "Subscribe"
        path = "/v1/hubs/acme/channels/a/messages?store=true"
        async with hub.http.post(path, data="live") as answer:
            assert answer.status == 200
        while sum(map(len, serials.values())) < 121:
            for said in await reader.envelopes():
                assert said["event"] != "Disconnect"
                if said["event"] == "Publish":
                    message = said["payload"]
                    serials[message["channel"]].append(int(message["channelSerial"]))
    assert serials == {"a": list(range(1, 62)), "b": list(range(1, 61))}
