"""A hub that says what a test wants, for what a real one does only on a bad day."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from hubbub.domain import notices, requests
from hubbub.domain.messages import TEXT, Message
from hubbub.domain.notices import Notice
from hubbub.domain.requests import Request
from hubbub.protocols.protobuf.codec import PROTOBUF_V1

R = TypeVar("R", bound=Request)
PATIENCE_SECONDS = 5


def message(serial: int, channel: str = "news") -> notices.MessageDelivery:
    text = str(serial).encode()
    return notices.MessageDelivery(Message(f"m{serial}", "", channel, "", text, TEXT, 0, serial))


class Visitor:
    """One connection of a client, greeted."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection
        self._requests: asyncio.Queue[Request] = asyncio.Queue()

    async def say(self, *said: Notice) -> None:
        units = [PROTOBUF_V1.encode(notice) for notice in said]
        await self._connection.send(PROTOBUF_V1.join(units))

    async def listen(self) -> None:
        try:
            async for data in self._connection:
                assert isinstance(data, bytes)
                for request in PROTOBUF_V1.decode(data):
                    self._requests.put_nowait(request)
        except ConnectionClosed:
            pass

    async def next(self) -> Request:
        return await asyncio.wait_for(self._requests.get(), PATIENCE_SECONDS)

    async def expect(self, kind: type[R]) -> R:
        """The next request, which must be of this kind."""
        request = await self.next()
        assert isinstance(request, kind), request
        return request

    async def confirm(self, serial: int = 0, recovered: bool = True, epoch: str = "e1") -> Request:
        """Confirms a Subscribe; returns the request."""
        request = await self.expect(requests.Subscribe)
        channels = tuple(
            notices.SubscribedChannel(each.channel, epoch, serial, recovered)
            for each in request.channels
        )
        await self.say(notices.Subscribed(channels, req_id=request.req_id))
        return request

    async def closed(self) -> None:
        await asyncio.wait_for(self._connection.wait_closed(), PATIENCE_SECONDS)

    def cut(self) -> None:
        """The network fails."""
        self._connection.transport.abort()


class ScriptedHub:
    """`ping_interval` is what it tells clients."""

    def __init__(self, ping_interval: int = 25) -> None:
        self._ping_interval = ping_interval
        self._visitors: asyncio.Queue[Visitor] = asyncio.Queue()
        self.port = 0

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    async def visitor(self) -> Visitor:
        """The next client that connects."""
        return await asyncio.wait_for(self._visitors.get(), PATIENCE_SECONDS)

    async def _talk(self, connection: ServerConnection) -> None:
        visitor = Visitor(connection)
        await visitor.say(
            notices.SessionInfo("demo", "s1", True, False, True, False, None, self._ping_interval)
        )
        self._visitors.put_nowait(visitor)
        await visitor.listen()

    async def start(self) -> Server:
        server = await serve(
            self._talk,
            "127.0.0.1",
            self.port,
            subprotocols=[Subprotocol(PROTOBUF_V1.subprotocol)],
            compression=None,
        )
        self.port = int(next(iter(server.sockets)).getsockname()[1])
        return server


@asynccontextmanager
async def scripted_hub(ping_interval: int = 25) -> AsyncIterator[ScriptedHub]:
    hub = ScriptedHub(ping_interval)
    async with await hub.start():
        yield hub
