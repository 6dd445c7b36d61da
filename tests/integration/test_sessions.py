"""Sessions: the greeting, heartbeats, the end, anonymity and its limits."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from harness.clock import FakeClock
from harness.raw import PING, RawWebSocket, client_frame
from harness.running_hub import RunningHub, StartHub, open_hub
from harness.topics import until
from hubbub.domain.permissions import Grant
from hubbub.domain.rules import HubConfiguration, Rules
from hubbub.gateways.websocket import WebSocketConnection

PRIVATE = Rules(live_history=True)
MEMBERS_ONLY = Rules(public=True, client_publish=True)


def closed_hub(**more: Any) -> HubConfiguration:
    return open_hub(allow_anonymous=False, **more)


# -- the greeting -------------------------------------------------------------------------------


@pytest.mark.spec("LIVE-03")
async def test_session_info_is_the_first_message_and_says_what_the_hub_allows(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(
        open_hub(user_channel=True, default_public=True), open_hub("strict", allow_anonymous=False)
    )
    socket = await hub.raw_socket()
    info = await socket.expect("SessionInfo")
    assert info["hubID"] == "acme"
    assert info["hubAllowAnonymous"] is True
    assert info["hubAllowUserChannel"] is True
    assert info["defaultPublic"] is True
    assert info["authenticated"] is False
    assert info["protocolVersion"] == 1
    assert info["pingInterval"] == 25
    assert "userID" not in info

    token = hub.token("ann", "strict")
    other = await hub.raw_socket("strict", f"?token={token}")
    greeting = await other.expect("SessionInfo")
    assert greeting["sessionID"] != info["sessionID"]
    assert greeting["authenticated"] is True
    assert greeting["userID"] == "ann"
    assert greeting["hubAllowAnonymous"] is False
    assert greeting["hubAllowUserChannel"] is False


# -- heartbeats ---------------------------------------------------------------------------------


@pytest.mark.spec("LIVE-04")
async def test_a_ping_is_answered_with_its_id_also_before_authentication(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(closed_hub())
    socket = await hub.socket()
    await socket.send("Ping", reqID=42)
    assert await socket.expect("Pong") == {"reqID": 42}
    await socket.send("Ping")
    assert await socket.expect("Pong") == {}


@pytest.mark.spec("LIVE-04")
async def test_a_dead_peer_is_closed_and_a_living_one_is_not(start_server: StartHub) -> None:
    clock = FakeClock()
    hub = await start_server(
        clock=clock, connection__ws__pingInterval=1, connection__ws__pongTimeout=1
    )
    node = hub.server.node
    dead, answering, talking = [await hub.socket() for _ in range(3)]
    pinging = await RawWebSocket.connect(hub.address)
    clock.advance(1)
    node.sweep()
    for socket in (dead, answering, talking):
        await socket.expect("Ping")
    # Any message counts as a sign of life, and so does a WebSocket ping.
    clock.advance(0.5)
    await answering.send("Pong")
    await talking.send("Subscribe", channels=[])
    await talking.expect("Subscribe")
    pinging.send(client_frame(PING))
    assert await pinging.envelopes() == [{"event": "Ping", "payload": {}}]
    await pinging.receive()
    await answering.send("Ping")
    await answering.expect("Pong")
    clock.advance(0.5)
    node.sweep()
    code, reason = await dead.closed()
    assert code == 4406
    assert reason.startswith("heartbeat_timeout")
    assert dead.backlog[-1]["payload"]["reconnect"] is True
    await answering.send("Ping", reqID=2)
    assert await answering.find("Pong") == {"reqID": 2}
    assert len(node.hubs["acme"].sessions) == 3
    await pinging.__aexit__()


@pytest.mark.spec("LIVE-04")
async def test_close_ends_the_session_and_the_connection(hub: RunningHub) -> None:
    socket = await hub.socket()
    await socket.subscribe("a")
    await socket.send("Close")
    code, _ = await socket.closed()
    assert code == 1000
    assert hub.server.node.session_count == 0


@pytest.mark.spec("LIVE-04", "LIVE-15")
async def test_close_discards_what_was_saved_for_a_return(hub: RunningHub) -> None:
    socket = await hub.socket(token=hub.token())
    key = (await socket.find("SessionRestore"))["restoreKey"]
    await hub.server.node.restore_keys.flush()
    await socket.send("Close")
    await socket.closed()
    again = await hub.socket()
    await again.send("SessionRestore", restoreKey=key, reqID=1)
    failed = await again.expect("Error")
    assert failed["error"]["code"] == "restore_failed"


@pytest.mark.spec("LIVE-04", "OPS-03")
async def test_a_peer_that_vanishes_leaves_nothing_behind(hub: RunningHub) -> None:
    watcher = await hub.socket()
    gone = await RawWebSocket.connect(hub.address)
    assert hub.server.node.session_count == 2
    await gone.__aexit__()
    while hub.server.node.session_count > 1:  # the kernel tells the server when it does
        await watcher.send("Ping")
        await watcher.expect("Pong")


# -- anonymity ----------------------------------------------------------------------------------


@pytest.mark.spec("LIVE-05", "OPS-02")
async def test_before_authentication_a_hub_without_anonymity_does_nothing_for_a_session(
    start_hub: StartHub,
) -> None:
    """Not even on channels whose own rules would let anyone in."""
    hub = await start_hub(closed_hub())
    socket = await hub.socket()
    refused = await socket.subscribe("a")
    assert refused["failures"][0]["error"]["code"] == "not_authenticated"
    result = await socket.publish("a", {"json": 1})
    assert result["error"]["code"] == "not_authenticated"
    await socket.send("History", channel="a", reqID=3)
    assert (await socket.expect("History"))["error"]["code"] == "not_authenticated"
    await socket.send("Presence", channel="a", reqID=4)
    assert (await socket.expect("Presence"))["error"]["code"] == "not_authenticated"
    for request in (
        hub.http.post("/v1/hubs/acme/channels/a/messages", data="x"),
        hub.http.get("/v1/hubs/acme/channels/a/messages"),
        hub.http.get("/v1/hubs/acme/events?channel=a"),
        hub.http.post("/v1/hubs/acme/messages", json={"publishes": []}),
    ):
        async with request as answer:
            assert answer.status == 401
            assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.spec("LIVE-05")
async def test_who_does_not_authenticate_in_time_is_closed(start_server: StartHub) -> None:
    clock = FakeClock()
    hub = await start_server(closed_hub(), clock=clock, session__authenticateTimeout=5)
    late = await hub.socket()
    timely = await hub.socket()
    clock.advance(4)
    await timely.send("Auth", token=hub.token())
    assert (await timely.expect("Auth"))["success"]
    clock.advance(1.5)
    hub.server.node.sweep()
    code, reason = await late.closed()
    assert code == 4407
    assert reason.startswith("authentication_timeout")
    await timely.send("Ping", reqID=1)
    await timely.find("Pong")


@pytest.mark.spec("LIVE-05")
async def test_failed_authentication_closes_only_where_anonymity_is_forbidden(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(), open_hub("strict", allow_anonymous=False))
    tolerant = await hub.socket()
    await tolerant.subscribe("a")
    await tolerant.send("Auth", reqID=5, token="forged")
    failed = await tolerant.expect("Auth")
    assert (failed["success"], failed["reqID"]) == (False, 5)
    assert failed["error"]["code"] == "invalid_token"
    assert (await tolerant.publish("a", {"json": 1}))["success"]

    strict = await hub.socket("strict")
    await strict.send("Auth", token="forged")
    assert (await strict.expect("Auth"))["success"] is False
    assert (await strict.closed())[0] == 4411


@pytest.mark.spec("LIVE-05")
async def test_a_token_that_fails_at_connect_is_never_taken_for_anonymous(hub: RunningHub) -> None:
    socket = await hub.raw_socket(query="?token=forged")
    said = await socket.expect("Disconnect")
    assert said["code"] == "invalid_token"
    assert (await socket.closed())[0] == 4411


@pytest.mark.spec("LIVE-05", "LIVE-12")
async def test_public_without_anonymous_means_any_authenticated_session(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(namespaces={"club": MEMBERS_ONLY}))
    socket = await hub.socket()
    refused = await socket.subscribe("club:1")
    assert refused["failures"][0]["error"]["code"] == "not_permitted"
    await socket.send("Auth", token=hub.token())
    await socket.find("Auth")
    assert (await socket.subscribe("club:1"))["subscribedChannels"] == ["club:1"]


@pytest.mark.spec("LIVE-05", "LIVE-14")
async def test_another_identity_on_the_same_connection_keeps_only_what_it_may(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(namespaces={"room": PRIVATE}, user_channel=True))
    both = (Grant("room:1", subscribe=True), Grant("room:2", subscribe=True))
    socket = await hub.socket(token=hub.token("ann", grants=both))
    assert (await socket.find("Subscribe"))["subscribedChannels"] == ["u:ann"]
    await socket.subscribe("room:1", "room:2", "lobby")
    await socket.send("Auth", token=hub.token("bob", grants=both[:1]), reqID=2)
    changed = await socket.find("Auth")
    assert changed["userID"] == "bob"
    lost = await socket.find("Unsubscribe")
    assert {each["channel"] for each in lost["failures"]} == {"room:2", "u:ann"}
    assert {each["error"]["code"] for each in lost["failures"]} == {"not_permitted"}
    assert (await socket.find("Subscribe"))["subscribedChannels"] == ["u:bob"]
    # What it kept, it hears; what it lost, it does not.
    service = await hub.socket(token=hub.token("svc", grants=(Grant("*", publish=True),)))
    for channel in ("u:ann", "room:2", "room:1", "u:bob", "lobby"):
        await service.publish(channel, {"json": channel})
    heard = [(await socket.find("Publish"))["channel"] for _ in range(3)]
    assert heard == ["room:1", "u:bob", "lobby"]


@pytest.mark.spec("LIVE-05")
async def test_a_newer_token_of_the_same_user_prolongs_the_session(start_server: StartHub) -> None:
    clock = FakeClock()
    hub = await start_server(
        closed_hub(), clock=clock, connection__ws__pingInterval=1, connection__ws__pongTimeout=1
    )
    socket = await hub.socket(token=hub.token(ttl=60))
    await socket.subscribe("a")
    clock.advance(50)
    await socket.send("Auth", token=hub.token(ttl=60))
    assert (await socket.find("Auth"))["success"]
    clock.advance(20)
    hub.server.node.sweep()
    assert (await socket.publish("a", {"json": 1}))["success"]


@pytest.mark.spec("LIVE-05", "LIVE-06")
async def test_a_session_does_not_outlive_its_token(start_server: StartHub) -> None:
    clock = FakeClock()
    hub = await start_server(
        open_hub(namespaces={"room": PRIVATE}),
        open_hub("strict", allow_anonymous=False),
        clock=clock,
        connection__ws__pingInterval=1,
        connection__ws__pongTimeout=1,
    )
    grants = (Grant("room:*", publish=True, subscribe=True),)
    socket = await hub.socket(token=hub.token(grants=grants, ttl=60))
    strict = await hub.socket("strict", token=hub.token(hub="strict", ttl=60))
    await socket.subscribe("room:1", "lobby")
    clock.advance(61)
    result = await socket.publish("room:1", {"json": 1})
    assert result["error"]["code"] == "invalid_token"
    hub.server.node.sweep()
    lost = await socket.find("Unsubscribe")
    assert [each["channel"] for each in lost["failures"]] == ["room:1"]
    assert (await socket.publish("lobby", {"json": 1}))["success"]
    assert (await strict.closed())[0] == 4411


@pytest.mark.spec("LIVE-05", "OPS-03")
async def test_requests_that_wait_behind_a_slow_one_keep_their_order_and_their_bound(
    start_hub: StartHub,
) -> None:
    kept = Rules(public=True, allow_anonymous=True, client_publish=True, store=True)
    hub = await start_hub(open_hub(rules=kept), session__messagesPerSecond=0)
    socket = await hub.socket()
    (session,) = hub.server.node.hubs["acme"].sessions.values()
    assert isinstance(session.connection, WebSocketConnection)
    connection, most = session.connection, 0

    async def ask() -> None:
        nonlocal most
        for number in range(1, 2501):
            await socket.send("History", channel="a", reqID=number, padding="x" * 1000)
            most = max(most, connection.held_bytes)

    asking = asyncio.create_task(ask())
    answers = [(await socket.find("History"))["reqID"] for _ in range(2500)]
    await asking
    assert answers == list(range(1, 2501))
    assert most < 320 * 1024  # of 2.5 MB: the bound, and what one read of the socket brings


@pytest.mark.spec("LIVE-04")
async def test_a_server_that_stops_tells_everyone_to_come_back(start_server: StartHub) -> None:
    hub = await start_server()
    socket = await hub.socket()
    async with hub.http.get("/v1/hubs/acme/events?channel=a") as stream:
        await stream.content.readuntil(b"event: Subscribe")
        await asyncio.wait_for(hub.server.stop(), 5)
        code, _ = await socket.closed()
        assert code == 1001
        said = socket.backlog[-1]
        assert said["event"] == "Disconnect"
        assert (said["payload"]["code"], said["payload"]["reconnect"]) == ("going_away", True)
        assert b"event: Disconnect" in await stream.content.read()


@pytest.mark.spec("LIVE-04")
async def test_what_connections_leave_is_freed_without_the_garbage_collector(
    hub: RunningHub,
) -> None:
    """A look at everything stops the server for long: it is made only if memory grows."""
    gc.collect()
    gc.disable()
    try:
        for number in range(3):
            socket = await hub.socket(token=hub.token())
            await socket.subscribe("a", f"b{number}")
            await socket.publish("a", {"json": 1})
            await (socket.connection.close() if number else socket.send("Close"))
            await socket.closed()
            async with RawWebSocket(*await asyncio.open_connection(*hub.address.split(":"))):
                pass
            async with hub.http.get("/v1/hubs/acme/events?channel=a") as stream:
                await stream.content.readuntil(b"event: Subscribe")
            path = "/v1/hubs/acme/channels/a/messages"
            async with hub.http.post(path, data=b"1", headers={"Connection": "close"}) as answer:
                assert answer.status == 200
        node, listener = hub.server.node, hub.server.listener
        await until(lambda: not node.hubs["acme"].sessions and not listener.http_connections)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = [each for each in gc.garbage if type(each).__module__.startswith("hubbub.")]
        assert left == []
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
