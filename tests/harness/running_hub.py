"""Real servers on loopback for tests, and clients that speak the wire protocol by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from hubbub.domain.names import partition_of
from hubbub.domain.permissions import Grant, Identity, Level
from hubbub.domain.rules import HubConfiguration, HubSettings, Rules
from hubbub.server.settings import Settings, load
from hubbub.server.wiring import Server

OPEN = Rules(public=True, client_publish=True, allow_anonymous=True, live_history=True)

NO_LIMITS = {
    "failedCredentialsPerMinute": 0,
    "anonymousPerSecond": 0,
    "clientPerSecond": 0,
    "servicePerSecond": 0,
    "connectionsPerSecond": 0,
}
"""For tests that are not about `limits`: all of their clients have the same address."""

ANSWER_SECONDS = 20.0
"""Timeout of a response on a busy machine."""


class Socket:
    """A WebSocket client in JSON that shows exactly what was said."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.backlog: list[dict[str, Any]] = []

    async def send(self, event: str, **payload: Any) -> None:
        await self.connection.send(json.dumps({"event": event, "payload": payload}))

    async def next(self) -> dict[str, Any]:
        """The next envelope, whatever it is."""
        while not self.backlog:
            text = await asyncio.wait_for(self.connection.recv(), ANSWER_SECONDS)
            assert isinstance(text, str)
            self.backlog += [json.loads(line) for line in text.split("\n")]
        return self.backlog.pop(0)

    async def expect(self, event: str) -> dict[str, Any]:
        """The payload of the next envelope, which must be this event."""
        envelope = await self.next()
        assert envelope["event"] == event, envelope
        payload: dict[str, Any] = envelope["payload"]
        return payload

    async def find(self, event: str) -> dict[str, Any]:
        """The payload of the next envelope with this event; others are passed over."""
        while True:
            envelope = await self.next()
            if envelope["event"] == event:
                payload: dict[str, Any] = envelope["payload"]
                return payload

    async def subscribe(self, *channels: str, **more: Any) -> dict[str, Any]:
        wanted = [{"channel": channel, **more} for channel in channels]
        await self.send("Subscribe", reqID=1, channels=wanted)
        return await self.find("Subscribe")

    async def publish(
        self, channel: str, payload: dict[str, Any], event: str = "e", **extra: bool
    ) -> dict[str, Any]:
        """Publish and wait for the result."""
        item = {"channel": channel, "event": event, "payload": payload, "extra": extra, "reqID": 7}
        await self.send("Publish", publishes=[item])
        acknowledged = await self.find("Ack")
        result: dict[str, Any] = acknowledged["published"][0]
        return result

    async def closed(self) -> tuple[int, str]:
        """Wait for the server to close; answers its code and reason."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                while True:
                    text = await self.connection.recv()
                    if isinstance(text, str):
                        self.backlog += [json.loads(line) for line in text.split("\n")]
        except ConnectionClosed:
            assert self.connection.close_code is not None
            return self.connection.close_code, self.connection.close_reason or ""


class RunningHub:
    """A server that runs, with short ways to use it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._sockets: list[ClientConnection] = []
        self.http = aiohttp.ClientSession(base_url=f"http://127.0.0.1:{server.port}")

    async def delete_before(self, channel: str, serial: int, hub: str = "acme") -> None:
        """Delete stored messages of a channel, as retention does."""
        partition = partition_of(hub, channel)
        term = self.server.owner.terms[partition]
        await self.server.store.delete_before(hub, channel, serial, partition, term)

    def waiting_consumers(self, hub: str = "acme") -> int:
        """Gets that wait for a message."""
        return self.server.subscriptions.waiting().get(hub, 0)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    def token(
        self,
        user: str | None = "ann",
        hub: str = "acme",
        level: Level = Level.CLIENT,
        grants: tuple[Grant, ...] = (),
        ttl: float = 600,
        **extra: Any,
    ) -> str:
        identity = Identity(user_id=user, level=level, grants=grants, extra=extra)
        return self.server.tokens.issue(hub, identity, ttl)

    async def metrics(self) -> str:
        """The page for Prometheus, as an operator gets it."""
        token = self.token(None, "*", Level.ADMIN)
        headers = {"Authorization": f"Bearer {token}"}
        async with self.http.get("/metrics", headers=headers) as answer:
            assert answer.status == 200
            assert answer.content_type == "text/plain"
            return await answer.text()

    async def raw_socket(self, hub: str = "acme", query: str = "", **options: Any) -> Socket:
        """Connected, but not greeted yet."""
        url = f"ws://{self.address}/v1/hubs/{hub}/socket{query}"
        # Without a bound on its queue: `close` reads on only while there is room in it.
        unbounded: dict[str, Any] = {"max_queue": None, "close_timeout": 1, **options}
        connection = await connect(url, compression=None, proxy=None, **unbounded)
        self._sockets.append(connection)
        return Socket(connection)

    async def socket(self, hub: str = "acme", token: str | None = None) -> Socket:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        socket = await self.raw_socket(hub, additional_headers=headers)
        await socket.expect("SessionInfo")
        return socket

    async def disconnect(self) -> None:
        """Closes the clients."""
        for connection in self._sockets:
            await connection.close()
        await self.http.close()

    async def close(self) -> None:
        await self.disconnect()
        await self.server.stop()


StartHub = Callable[..., Awaitable[RunningHub]]


def hub_settings(tmp_path: Path, *hubs: HubConfiguration, **overrides: object) -> Settings:
    """Settings for a test server: any port, data in the test's folder. `overrides` use `__` for
    the dots of a key: `session__maxChannels=3`. Thousands of data folders keep no room back."""
    dotted = {name.replace("__", "."): value for name, value in overrides.items()}
    off = {f"limits.{name}": value for name, value in NO_LIMITS.items()}
    storage = {"storage.path": str(tmp_path / "data"), "storage.reserveBytes": 0}
    keys = {"listener.port": 0, **storage, **off, **dotted}
    settings = load(None, {}, keys)
    declared = {hub.hub: hub for hub in hubs or (open_hub(),)}
    return msgspec.structs.replace(settings, hubs=declared)


def open_hub(
    name: str = "acme", rules: Rules = OPEN, namespaces: dict[str, Rules] | None = None, **more: Any
) -> HubConfiguration:
    """A hub where anyone may do anything, or what the arguments say."""
    named = {f"of-{namespace}": each for namespace, each in (namespaces or {}).items()}
    return HubConfiguration(
        hub=name,
        settings=HubSettings(**{"allow_anonymous": True, "default_rules": "default", **more}),
        rules={"default": rules, **named},
        namespaces={namespace: f"of-{namespace}" for namespace in namespaces or {}},
    )
