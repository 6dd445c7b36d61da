"""Clients of Hubiquitus, by the hub's own subprotocol."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp

from harness.commands import command_hub
from harness.running_hub import RunningHub
from hubbub.domain.rules import HubConfiguration

SUBPROTOCOL = "hubbub.hubiquitus.v1"


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


def restoring(**settings: Any) -> HubConfiguration:
    return command_hub(session_restore=True, **settings)
