"""The door of the JavaScript client of 2012: socket.io protocol 1, spoken by its own transport
(npm socket.io-client@0.8.7) and by hand."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from harness.clock import FakeClock
from harness.hubiquitus import HClient, restoring
from harness.node_programs import node
from harness.running_hub import RunningHub, StartHub

pytestmark = [pytest.mark.spec("CMD-01"), pytest.mark.spec("CMD-03")]

CLIENT = Path(__file__).parents[1] / "socket_io_client" / "client.js"
ON = {"connection__socketIo__enabled": True}


@pytest.fixture
async def hub(start_server: StartHub) -> RunningHub:
    return await start_server(restoring(), **ON)


class OldClient:
    """The client of 2012, in a process of Node."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, hub: RunningHub) -> AsyncIterator[OldClient]:
        async with node(CLIENT, f"http://{hub.address}") as process:
            client = cls(process)
            await client.next("connect")
            yield client

    async def next(self, name: str) -> Any:
        assert self._process.stdout is not None
        async with asyncio.timeout(20):
            while True:
                heard, value = json.loads(await self._process.stdout.readline())
                if heard == name:
                    return value

    async def tell(self, told: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(told).encode() + b"\n")
        await self._process.stdin.drain()

    async def log_in(self, hub: RunningHub, user: str) -> dict[str, Any]:
        proof = {"publisher": f"{user}@demo", "password": hub.token(user, "demo")}
        await self.tell(["hConnect", proof])
        assert await self.next("hStatus") == {"status": 2, "errorCode": 0}
        await self.next("attrs")
        attributes: dict[str, Any] = await self.next("attrs")
        return attributes

    async def ask(self, user: str, cmd: str, params: Any) -> dict[str, Any]:
        jid = f"{user}@demo"
        command = {"reqid": cmd, "sender": jid, "entity": "hnode@demo", "cmd": cmd}
        await self.tell(["hCommand", {**command, "params": params}])
        result: dict[str, Any] = await self.next("hResult")
        return result


async def test_the_old_client_goes_from_its_handshake_to_an_hmessage(hub: RunningHub) -> None:
    async with OldClient.running(hub) as bob:
        attributes = await bob.log_in(hub, "bob")
        assert attributes["publisher"].startswith("bob@demo/s")
        ann = await HClient.connected(hub, "ann")
        people = ["ann@demo", "bob@demo"]
        record = {"chid": "#news@demo", "owner": "bob@demo", "participants": people, "active": True}
        assert (await bob.ask("bob", "hCreateUpdateChannel", record))["status"] == 0
        assert (await bob.ask("bob", "hSubscribe", {"chid": "#news@demo"}))["status"] == 0
        said = {
            "chid": "#news@demo",
            "publisher": "ann@demo",
            "payload": {"text": "h\u00e9 \u2603"},
        }
        published = await ann.ask("hPublish", said)
        assert await bob.next("hMessage") == published["result"]
        ringing = asyncio.ensure_future(ann.ask("ring", {"times": 2}, entity="bob@demo"))
        command = await bob.next("hCommand")
        answer = {"cmd": "ring", "reqid": command["reqid"], "status": 0, "result": "rang"}
        await bob.tell(["hResult", answer])
        assert (await ringing)["result"] == "rang"


@pytest.mark.spec("CMD-08")
async def test_the_old_client_attaches_after_it_left(hub: RunningHub) -> None:
    async with OldClient.running(hub) as bob:
        attributes = await bob.log_in(hub, "bob")
        await bob.tell("disconnect")
        await bob.next("disconnect")
    async with OldClient.running(hub) as again:
        await again.tell(["attach", {**attributes, "rid": str(attributes["rid"])}])
        assert await again.next("hStatus") == {"status": 4, "errorCode": 0}
        assert (await again.next("attrs"))["publisher"] == attributes["publisher"]
        assert (await again.ask("bob", "hEcho", [1]))["result"] == [1]


async def test_the_old_client_answers_heartbeats_and_lives_on(start_hub: StartHub) -> None:
    times = {"connection__ws__pingInterval": 1, "connection__ws__pongTimeout": 0.5}
    hub = await start_hub(restoring(), **ON, **times)
    async with OldClient.running(hub) as bob:
        await bob.log_in(hub, "bob")
        for _ in range(3):
            await bob.next("heartbeat")
        assert (await bob.ask("bob", "hEcho", {"a": 1}))["result"] == {"a": 1}


# -- by hand --------------------------------------------------------------------------------------


async def shake_hands(hub: RunningHub, **headers: str) -> str:
    async with hub.http.get("/socket.io/1/?t=1", headers=headers) as answer:
        assert answer.status == 200
        return (await answer.text()).partition(":")[0]


async def opened(hub: RunningHub, **headers: str) -> aiohttp.ClientWebSocketResponse:
    sid = await shake_hands(hub)
    socket = await hub.http.ws_connect(f"/socket.io/1/websocket/{sid}", headers=headers)
    assert await packet(socket) == "1::"
    return socket


async def packet(socket: aiohttp.ClientWebSocketResponse) -> str:
    return await socket.receive_str(timeout=20)


async def event(socket: aiohttp.ClientWebSocketResponse) -> tuple[str, Any]:
    text = await packet(socket)
    assert text.startswith("5:::"), text
    found = json.loads(text[4:])
    return found["name"], found["args"][0]


async def status(socket: aiohttp.ClientWebSocketResponse) -> tuple[int, int]:
    name, value = await event(socket)
    assert name == "hStatus"
    return value["status"], value["errorCode"]


def hconnect(publisher: Any, password: Any) -> str:
    args = [{"publisher": publisher, "password": password}]
    return "5:::" + json.dumps({"name": "hConnect", "args": args})


async def test_nothing_is_there_unless_it_is_switched_on(start_hub: StartHub) -> None:
    hub = await start_hub(restoring())
    assert (await hub.http.get("/socket.io/1/")).status == 404
    with pytest.raises(aiohttp.WSServerHandshakeError):
        await hub.http.ws_connect("/socket.io/1/websocket/x")


async def test_the_handshake_answers_pages_with_their_origin(hub: RunningHub) -> None:
    headers = {"Origin": "https://page.example"}
    async with hub.http.get("/socket.io/1/?t=1", headers=headers) as answer:
        sid, heartbeat, close, transports = (await answer.text()).split(":")
        assert (len(sid), int(heartbeat), int(close), transports) == (32, 35, 60, "websocket")
        assert answer.headers["Access-Control-Allow-Origin"] == "https://page.example"
        assert answer.headers["Access-Control-Allow-Credentials"] == "true"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/socket.io/1/", 405),
        ("GET", "/socket.io/2/", 404),
        ("GET", "/socket.io/1/xhr-polling/abc", 404),
        ("GET", "/socket.io/1/websocket/abc", 426),
        ("GET", "/socket.io/1/websocket/abc/d", 404),
    ],
)
async def test_other_transports_and_methods_are_not_served(
    hub: RunningHub, method: str, path: str, status: int
) -> None:
    assert (await hub.http.request(method, path)).status == status


async def test_a_session_id_works_once(hub: RunningHub) -> None:
    sid = await shake_hands(hub)
    await hub.http.ws_connect(f"/socket.io/1/websocket/{sid}")
    for wrong in (sid, "unknown", ""):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await hub.http.ws_connect(f"/socket.io/1/websocket/{wrong}")
        assert refused.value.status == 404


@pytest.mark.parametrize(
    ("frame", "answer"),
    [
        (hconnect("nobody", "x"), ("hStatus", (6, 1))),
        (hconnect(None, "x"), ("hStatus", (6, 1))),
        ('5:::{"name":"attach","args":[{"publisher":"ann"}]}', ("hStatus", (1, 4))),
        ('5:::{"name":"hResult","args":[{}]}', ("hStatus", (6, 7))),
        ('5:::{"name":"nothing","args":[]}', ("hStatus", (2, 6))),
        ("5:::{", ("hStatus", (2, 6))),
        ("5:::" + "[" * 5000, ("hStatus", (2, 6))),
        ("3:::text", ("hStatus", (2, 6))),
        ("", ("hStatus", (2, 6))),
        ("5::/other:{}", ("hStatus", (2, 6))),
    ],
)
async def test_before_a_hub_is_named_nothing_but_a_refusal_comes(
    hub: RunningHub, frame: str, answer: tuple[str, tuple[int, int]]
) -> None:
    socket = await opened(hub)
    await socket.send_str(frame)
    name, value = await event(socket)
    assert (name, (value["status"], value["errorCode"])) == answer
    await socket.send_str(hconnect("ann@demo", hub.token("ann", "demo")))
    assert await status(socket) == (2, 0)


async def test_a_command_before_hconnect_is_not_connected(hub: RunningHub) -> None:
    socket = await opened(hub)
    await socket.send_str('5:::{"name":"hCommand","args":[{"cmd":"hEcho","reqid":"1"}]}')
    name, value = await event(socket)
    assert (name, value["status"], value["reqid"]) == ("hResult", 3, "1")


@pytest.mark.parametrize("domain", ["demo", "nowhere", "a:b", "x" * 300, "a%20b", "%00"])
async def test_a_wrong_password_and_a_hub_that_does_not_exist_look_the_same(
    hub: RunningHub, domain: str
) -> None:
    socket = await opened(hub)
    await socket.send_str(hconnect(f"ann@{domain}", "a.b.c"))
    assert (await status(socket))[0] == 6


async def test_a_forged_sender_is_not_authorized(hub: RunningHub) -> None:
    socket = await opened(hub)
    await socket.send_str(hconnect("eve@demo", hub.token("eve", "demo")))
    assert await status(socket) == (2, 0)
    command = {"reqid": "1", "sender": "ann@demo", "entity": "hnode@demo", "cmd": "hEcho"}
    await socket.send_str("5:::" + json.dumps({"name": "hCommand", "args": [command]}))
    while (found := await event(socket))[0] != "hResult":
        pass
    assert found[1]["status"] == 5


async def test_the_token_of_another_user_connects_nobody(hub: RunningHub) -> None:
    socket = await opened(hub)
    await socket.send_str(hconnect("ann@demo", hub.token("eve", "demo")))
    assert await status(socket) == (6, 3)


async def test_a_page_of_a_foreign_origin_gets_no_session(start_hub: StartHub) -> None:
    origins = ("https://page.example",)
    hub = await start_hub(restoring(allowed_origins=origins), **ON)
    good = await opened(hub, Origin="https://page.example")
    await good.send_str(hconnect("ann@demo", hub.token("ann", "demo")))
    assert await status(good) == (2, 0)
    evil = await opened(hub, Origin="https://evil.example")
    await evil.send_str(hconnect("ann@demo", hub.token("ann", "demo")))
    assert await status(evil) == (6, 6)
    assert await packet(evil) == "0::"
    assert (await evil.receive(timeout=20)).type is aiohttp.WSMsgType.CLOSE


async def test_a_heartbeat_is_never_answered_by_the_hub(hub: RunningHub) -> None:
    """The client answers each one: they would go on for ever."""
    socket = await opened(hub)
    await socket.send_str("2::")
    await socket.send_str(hconnect("ann@demo", hub.token("ann", "demo")))
    await socket.send_str("2::")
    assert await status(socket) == (2, 0)
    assert (await event(socket))[0] == "attrs"


async def test_who_leaves_is_let_go(hub: RunningHub) -> None:
    socket = await opened(hub)
    await socket.send_str("0::")
    assert (await socket.receive(timeout=20)).type is aiohttp.WSMsgType.CLOSE
    while len(hub.server.listener.socket_io.handshakes):
        await asyncio.sleep(0.01)


async def test_handshakes_end_when_nothing_comes_of_them(start_server: StartHub) -> None:
    clock = FakeClock()
    hub = await start_server(restoring(), clock=clock, **ON)
    unused = await shake_hands(hub)
    socket = await opened(hub)
    connected = await opened(hub)
    await connected.send_str(hconnect("ann@demo", hub.token("ann", "demo")))
    assert await status(connected) == (2, 0)
    clock.advance(10.5)
    hub.server.listener.sweep()
    assert await status(socket) == (6, 2)
    assert await packet(socket) == "0::"
    with pytest.raises(aiohttp.WSServerHandshakeError):
        await hub.http.ws_connect(f"/socket.io/1/websocket/{unused}")
    assert len(hub.server.listener.socket_io.handshakes) == 0
    await connected.send_str('5:::{"name":"hCommand","args":[{"cmd":"hEcho","reqid":"1"}]}')
    while (await event(connected))[0] != "hResult":
        pass


async def test_handshakes_have_a_bound_and_the_oldest_of_the_largest_address_goes(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(restoring(), **ON, connection__socketIo__maxHandshakes=3)
    first = await opened(hub)
    sids = [await shake_hands(hub) for _ in range(3)]
    assert len(hub.server.listener.socket_io.handshakes) == 3
    assert await status(first) == (6, 6)
    last = await hub.http.ws_connect(f"/socket.io/1/websocket/{sids[-1]}")
    assert await packet(last) == "1::"


async def test_handshakes_count_as_connections_of_their_address(start_server: StartHub) -> None:
    hub = await start_server(restoring(), **ON, limits__connectionsPerSecond=1)
    statuses = set()
    for _ in range(12):
        async with hub.http.get("/socket.io/1/") as answer:
            statuses.add(answer.status)
    assert statuses == {200, 429}


async def test_binary_frames_and_too_large_ones_end_the_connection(hub: RunningHub) -> None:
    for frame in (b"\x00", "5:::" + "x" * 300_000):
        socket = await opened(hub)
        await socket.send_str(hconnect("ann@demo", hub.token("ann", "demo")))
        await (socket.send_bytes(frame) if isinstance(frame, bytes) else socket.send_str(frame))
        async with asyncio.timeout(20):
            while (await socket.receive()).type is aiohttp.WSMsgType.TEXT:
                pass


async def test_the_bound_on_sessions_holds_here_too(start_hub: StartHub) -> None:
    configuration = restoring()
    quotas = msgspec.structs.replace(configuration.settings.quotas, sessions=1)
    settings = msgspec.structs.replace(configuration.settings, quotas=quotas)
    hub = await start_hub(msgspec.structs.replace(configuration, settings=settings), **ON)
    for expected in ((2, 0), (6, 6)):
        socket = await opened(hub)
        await socket.send_str(hconnect("ann@demo", hub.token("ann", "demo")))
        assert await status(socket) == expected
