"""Users who send commands, through any of the doors."""

from __future__ import annotations

from itertools import count
from typing import Any, Literal

from harness.running_hub import RunningHub, StartHub
from harness.topics import STORED, TopicSocket
from hubbub.domain.notices import CommandAnswered
from hubbub.domain.permissions import Grant, Level
from hubbub.domain.requests import SendCommand
from hubbub.domain.rules import HubConfiguration, HubSettings, Rules
from hubbub.protocols.json.codec import JsonCodec
from hubbub.protocols.protobuf.codec import ProtobufCodec

Door = Literal["http", "json", "protobuf"]
DOORS: tuple[Door, ...] = ("http", "json", "protobuf")


def command_hub(rules: Rules | None = None, **settings: Any) -> HubConfiguration:
    """A hub in which clients may use only channels with an owner."""
    return HubConfiguration(
        hub="demo",
        settings=HubSettings(commands=True, default_rules="closed", **settings),
        rules={"closed": rules or Rules(), "public": STORED},
        namespaces={"public": "public"},
    )


class User:
    """A user with a token, at one of the gateways."""

    def __init__(
        self, hub: RunningHub, name: str, door: Door, level: Level, grants: tuple[Grant, ...]
    ) -> None:
        self._hub = hub
        self.name = name
        self._door = door
        self.token = hub.token(name, "demo", level, grants)
        self._numbers = count(1)
        self.socket: TopicSocket | None = None

    @property
    def jid(self) -> str:
        return f"{self.name}@demo"

    async def ask(self, cmd: str, params: Any = None, **more: Any) -> tuple[int, Any]:
        """The status and the result of a command; None: there is no result."""
        reqid = f"r{next(self._numbers)}"
        given = {"reqid": reqid, "sender": self.jid, "entity": "hnode@demo", "cmd": cmd, **more}
        if params is not None:
            given["params"] = params
        result = await self.send({k: v for k, v in given.items() if v is not None})
        assert result.get("reqid") == given["reqid"]
        assert result.get("cmd") == given["cmd"]
        return result["status"], result.get("result")

    async def send(self, given: Any) -> dict[str, Any]:
        if self._door == "http":
            headers = {"Authorization": f"Bearer {self.token}"}
            path = "/v1/hubs/demo/commands"
            async with self._hub.http.post(path, json=given, headers=headers) as answer:
                assert answer.status == 200, await answer.text()
                shown: dict[str, Any] = await answer.json()
                return shown
        answered = await (await self.connected()).ask(SendCommand, given)
        assert isinstance(answered, CommandAnswered), answered
        return answered.result

    async def connected(self) -> TopicSocket:
        if self.socket is None:
            codec = ProtobufCodec() if self._door == "protobuf" else JsonCodec()
            self.socket = await TopicSocket.open(self._hub, codec, self.token, "demo")
        return self.socket

    async def create(self, chid: str, *participants: str, **more: Any) -> tuple[int, Any]:
        jids = [each if "@" in each else f"{each}@demo" for each in participants]
        record = {"chid": chid, "owner": self.jid, "participants": jids, "active": True, **more}
        return await self.ask("hCreateUpdateChannel", record)

    async def publish(self, chid: str, payload: Any, **more: Any) -> tuple[int, Any]:
        message = {"chid": chid, "publisher": self.jid, "payload": payload, **more}
        return await self.ask("hPublish", message)


class Stage:
    """A hub and its users."""

    def __init__(self, hub: RunningHub, door: Door) -> None:
        self.hub = hub
        self.door = door
        self._users: list[User] = []

    @classmethod
    async def open(cls, start_hub: StartHub, door: Door = "json", **more: Any) -> Stage:
        return cls(await start_hub(command_hub(**more)), door)

    def user(
        self,
        name: str,
        level: Level = Level.CLIENT,
        grants: tuple[Grant, ...] = (),
        door: Door | None = None,
    ) -> User:
        user = User(self.hub, name, door or self.door, level, grants)
        self._users.append(user)
        return user

    async def close(self) -> None:
        for user in self._users:
            if user.socket is not None:
                await user.socket.connection.close()
