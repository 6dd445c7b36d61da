"""ZeroMQ clients of topics, as plain as they come."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import zmq
import zmq.asyncio

from harness.running_hub import RunningHub

DEADLINE_SECONDS = 10.0
ANY_PORT = "tcp://127.0.0.1:*"
Frame = str | bytes


def raw(frames: tuple[Frame, ...]) -> list[bytes]:
    return [frame if isinstance(frame, bytes) else frame.encode() for frame in frames]


class ZeroMqClient:
    """A REQ socket, or a DEALER one, with the frames as they are."""

    def __init__(self, socket: zmq.asyncio.Socket) -> None:
        self.socket = socket

    async def send(self, *frames: Frame) -> None:
        await self.socket.send_multipart(raw(frames))

    async def receive(self) -> list[bytes]:
        return await asyncio.wait_for(self.socket.recv_multipart(), DEADLINE_SECONDS)

    async def ask(self, *frames: Frame) -> list[bytes]:
        await self.send(*frames)
        return await self.receive()

    async def refused(self, *frames: Frame) -> tuple[str, str]:
        """The code and message of the error that this gets."""
        name, code, message = await self.ask(*frames)
        assert name == b"ERROR", (name, code, message)
        return code.decode(), message.decode()

    async def put(self, credential: str, topic: str, payload: Frame, **options: Any) -> int:
        """Answers the serial."""
        more = (json.dumps(options),) if options else ()
        name, _, serial, _ = await self.ask("put", credential, topic, payload, *more)
        assert name == b"PutReply"
        return int(serial)

    async def get(self, credential: str, topic: str, **options: Any) -> list[bytes]:
        return await self.ask("get", credential, topic, json.dumps(options))

    def vanish(self) -> None:
        self.socket.close(linger=0)


class ZeroMqClients:
    """Makes clients of one server, and closes them in the end."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._context = zmq.asyncio.Context()
        self._sockets: list[zmq.asyncio.Socket] = []

    def make(self, kind: int = zmq.REQ, **options: Any) -> ZeroMqClient:
        """Options are set on the socket before it connects."""
        socket = self._context.socket(kind)
        self._sockets.append(socket)
        socket.linger = 0
        for name, value in options.items():
            setattr(socket, name, value)
        socket.connect(self.endpoint)
        return ZeroMqClient(socket)

    def close(self) -> None:
        for socket in self._sockets:
            socket.close()
        self._context.term()


@asynccontextmanager
async def zeromq_clients(hub: RunningHub) -> AsyncIterator[ZeroMqClients]:
    assert hub.server.zeromq is not None
    clients = ZeroMqClients(hub.server.zeromq)
    try:
        yield clients
    finally:
        clients.close()
