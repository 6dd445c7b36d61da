"""The subprotocol hubbub.hubiquitus.v1: connecting, commands, messages, answers and reattaching, as
clients of Hubiquitus speak."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import msgspec
import pytest

from harness.commands import command_hub
from harness.running_hub import RunningHub, StartHub
from hubbub.domain.rules import HubConfiguration

pytestmark = [pytest.mark.spec("CMD-01"), pytest.mark.spec("CMD-03")]

SUBPROTOCOL = "hubbub.hubiquitus.v1"
Ended = (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.CLOSING)


class HClient:
    """A client of Hubiquitus over one WebSocket."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.attributes: dict[str, Any] = {}

    @classmethod
    async def open(cls, hub: RunningHub, query: str = "", name: str = "demo") -> HClient:
        path = f"/v1/hubs/{name}/socket{query}"
        socket = await hub.http.ws_connect(path, protocols=[SUBPROTOCOL])
        assert socket.protocol == SUBPROTOCOL
        return cls(socket)

    @classmethod
    async def connected(cls, hub: RunningHub, user: str) -> HClient:
        client = await cls.open(hub)
        assert await client.connect(f"{user}@demo", hub.token(user, "demo")) == (2, 0)
        await client.key()
        return client

    async def emit(self, name: str, *args: Any) -> None:
        await self.socket.send_json({"name": name, "args": list(args)})

    async def next(self, name: str) -> Any:
        """The object of the next event of this name."""
        async with asyncio.timeout(10):
            while True:
                event = await self.socket.receive_json()
                (value,) = event["args"]
                if event["name"] == name:
                    return value

    async def status(self) -> tuple[int, int]:
        found = await self.next("hStatus")
        return found["status"], found["errorCode"]

    async def connect(self, publisher: object, password: object) -> tuple[int, int]:
        await self.emit("hConnect", {"publisher": publisher, "password": password})
        return await self.status()

    async def key(self) -> dict[str, Any]:
        """The attributes with which the client can attach, which come after the first ones."""
        first = await self.next("attrs")
        self.attributes = await self.next("attrs")
        assert first["publisher"] == self.attributes["publisher"]
        return self.attributes

    @property
    def jid(self) -> str:
        return str(self.attributes["publisher"])

    async def ask(self, cmd: str, params: Any = None, **more: Any) -> dict[str, Any]:
        sender = self.jid.partition("/")[0] if self.attributes else "ann@demo"
        command = {"reqid": "7", "sender": sender, "entity": "hnode@demo", "cmd": cmd, **more}
        await self.emit("hCommand", command if params is None else {**command, "params": params})
        result: dict[str, Any] = await self.next("hResult")
        return result


@pytest.fixture
async def hub(start_hub: StartHub) -> RunningHub:
    return await start_hub(restoring())


def restoring() -> HubConfiguration:
    hub = command_hub()
    settings = msgspec.structs.replace(hub.settings, session_restore=True)
    return msgspec.structs.replace(hub, settings=settings)


async def test_a_client_connects_and_its_command_is_answered(hub: RunningHub) -> None:
    ann = await HClient.open(hub)
    assert await ann.connect("ann@demo/any", hub.token("ann", "demo")) == (2, 0)
    attributes = await ann.key()
    assert attributes["publisher"].startswith("ann@demo/s")
    assert isinstance(attributes["rid"], int)
    assert await ann.ask("hEcho", {"a": 1}) == {
        "cmd": "hEcho",
        "reqid": "7",
        "status": 0,
        "result": {"a": 1},
    }


async def test_a_token_at_the_handshake_replaces_hconnect(hub: RunningHub) -> None:
    ann = await HClient.open(hub, f"?token={hub.token('ann', 'demo')}")
    assert await ann.status() == (2, 0)
    await ann.key()
    assert (await ann.ask("hEcho", [1]))["result"] == [1]


@pytest.mark.parametrize(
    ("publisher", "password", "status"),
    [
        (None, "x", (6, 1)),
        ("", "x", (6, 1)),
        ("ann", "x", (6, 1)),
        (7, "x", (6, 1)),
        ("ann@demo/a/b", "x", (6, 1)),
        ("ann@demo", None, (6, 3)),
        ("ann@demo", "", (6, 3)),
        ("ann@demo", "wrong", (6, 3)),
        ("ann@demo", "a.b.c", (6, 3)),
        ("ann@other", "a.b.c", (6, 3)),
    ],
)
async def test_who_cannot_connect_is_told_why(
    hub: RunningHub, publisher: object, password: object, status: tuple[int, int]
) -> None:
    client = await HClient.open(hub)
    assert await client.connect(publisher, password) == status


async def test_a_token_of_another_user_connects_nobody(start_hub: StartHub) -> None:
    hub = await start_hub(command_hub(allow_anonymous=True))
    eve = await HClient.open(hub)
    assert await eve.connect("ann@demo", hub.token("eve", "demo")) == (6, 3)
    assert (await eve.ask("hEcho"))["status"] == 3
    assert await eve.connect("eve@demo", hub.token("eve", "demo")) == (2, 0)


async def test_a_command_before_hconnect_is_not_connected(hub: RunningHub) -> None:
    client = await HClient.open(hub)
    assert (await client.ask("hEcho", 1))["status"] == 3
    assert await client.connect("ann@demo", hub.token("ann", "demo")) == (2, 0)


async def test_connecting_again_says_that_one_is_connected(hub: RunningHub) -> None:
    ann = await HClient.connected(hub, "ann")
    assert await ann.connect("ann@demo", hub.token("ann", "demo")) == (2, 5)
    assert (await ann.ask("hEcho", 1))["status"] == 0


@pytest.mark.parametrize(
    "frame",
    ["", "1", "[]", "{", '{"name":1}', '{"name":"nothing","args":[{}]}', "[" * 5000,
     '{"name":"hResult","args":[1]}', '{"name":"hResult"}'],
)  # fmt: skip
async def test_a_frame_that_cannot_be_read_is_answered_and_the_connection_stays(
    hub: RunningHub, frame: str
) -> None:
    ann = await HClient.connected(hub, "ann")
    await ann.socket.send_str(frame)
    assert await ann.status() == (2, 6)
    assert (await ann.ask("hEcho", 1))["status"] == 0


@pytest.mark.parametrize("command", [None, 1, [], "x"])
async def test_a_command_that_is_no_object_is_invalid(hub: RunningHub, command: object) -> None:
    ann = await HClient.connected(hub, "ann")
    await ann.emit("hCommand", command)
    assert (await ann.next("hResult"))["status"] == 7


async def test_a_forged_sender_is_not_authorized(hub: RunningHub) -> None:
    eve = await HClient.connected(hub, "eve")
    assert (await eve.ask("hEcho", 1, sender="ann@demo"))["status"] == 5


@pytest.mark.spec("CMD-02")
async def test_messages_of_channels_and_direct_ones_arrive_as_hmessages(hub: RunningHub) -> None:
    ann, bob = await HClient.connected(hub, "ann"), await HClient.connected(hub, "bob")
    people = ["ann@demo", "bob@demo"]
    record = {"chid": "#news@demo", "owner": "ann@demo", "participants": people, "active": True}
    assert (await ann.ask("hCreateUpdateChannel", record))["status"] == 0
    assert (await bob.ask("hSubscribe", {"chid": "#news@demo"}))["status"] == 0
    said = {"publisher": "ann@demo", "type": "greeting", "payload": {"text": "hi"}}
    published = await ann.ask("hPublish", {"chid": "#news@demo", **said})
    delivered = await bob.next("hMessage")
    assert delivered == published["result"]
    assert (delivered["chid"], delivered["payload"]) == ("#news@demo", {"text": "hi"})
    await ann.ask("hPublish", {"chid": "bob@demo", **said})
    direct = await bob.next("hMessage")
    assert (direct["chid"], direct["publisher"]) == ("bob@demo", "ann@demo")


async def test_a_command_to_another_client_is_answered_by_it(hub: RunningHub) -> None:
    ann, bob = await HClient.connected(hub, "ann"), await HClient.connected(hub, "bob")

    async def serve() -> None:
        command = await bob.next("hCommand")
        assert command["sender"] == ann.jid
        result = {"cmd": command["cmd"], "reqid": command["reqid"], "status": 0, "result": "pong"}
        await bob.emit("hResult", result)

    serving = asyncio.ensure_future(serve())
    answer = await ann.ask("ping", entity="bob@demo")
    await serving
    assert answer == {"cmd": "ping", "reqid": "7", "status": 0, "result": "pong"}


@pytest.mark.spec("CMD-08")
async def test_a_client_reattaches_and_gets_what_it_missed(hub: RunningHub) -> None:
    ann, bob = await HClient.connected(hub, "ann"), await HClient.connected(hub, "bob")
    people = ["ann@demo", "bob@demo"]
    record = {"chid": "#news@demo", "owner": "ann@demo", "participants": people, "active": True}
    await ann.ask("hCreateUpdateChannel", record)
    await bob.ask("hSubscribe", {"chid": "#news@demo"})
    attributes = bob.attributes
    await bob.socket.close()
    said = {"chid": "#news@demo", "publisher": "ann@demo", "payload": 1, "transient": False}
    assert (await ann.ask("hPublish", said))["status"] == 0
    again = await HClient.open(hub)
    await again.emit("attach", {**attributes, "rid": str(attributes["rid"])})
    assert await again.status() == (4, 0)
    renewed = await again.next("attrs")
    assert renewed["publisher"] == attributes["publisher"]
    assert renewed["sid"] != attributes["sid"]
    assert (await again.next("hMessage"))["payload"] == 1
    other = await HClient.open(hub)
    await other.emit("attach", attributes)
    await other.status()


@pytest.mark.spec("CMD-08")
@pytest.mark.parametrize(
    "wrong",
    [{"sid": "nobody"}, {"sid": ""}, {"sid": None}, {"sid": 7}, {"publisher": None},
     {"publisher": "ann@demo/other"}, {"publisher": "eve@demo"}],
)  # fmt: skip
async def test_who_cannot_attach_may_still_connect(hub: RunningHub, wrong: dict[str, Any]) -> None:
    ann = await HClient.connected(hub, "ann")
    await ann.socket.close()
    again = await HClient.open(hub)
    await again.emit("attach", {**ann.attributes, **wrong})
    assert await again.status() == (1, 4)
    assert (await again.ask("hEcho"))["status"] == 3
    assert await again.connect("ann@demo", hub.token("ann", "demo")) == (2, 0)


async def test_a_hub_that_does_not_exist_looks_like_one_that_wants_a_password(
    hub: RunningHub,
) -> None:
    client = await HClient.open(hub, name="nowhere")
    assert await client.connect("ann@nowhere", hub.token("ann", "demo")) == (6, 3)
