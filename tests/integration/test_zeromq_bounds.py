"""Messages over ZeroMQ that never end are held up to a bound, before any authentication."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest
import zmq

from harness.running_hub import RunningHub, StartHub
from harness.topics import topic_hub
from harness.zeromq import ANY_PORT, zeromq_clients
from hubbub.gateways import zeromq_relay
from hubbub.gateways.zeromq_relay import Relay

pytestmark = pytest.mark.spec("SEC-01")

MEGABYTE = 1 << 20
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01NULL" + bytes(48)
READY = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zeromq_relay, "STALLED_SECONDS", 0.05)


def relay_of(hub: RunningHub) -> Relay:
    assert hub.server.door is not None
    return hub.server.door.relay


class Endless:
    """A client that only ever says that there is more."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.sent = 0

    @classmethod
    async def connect(cls, hub: RunningHub) -> Endless:
        assert hub.server.zeromq is not None
        port = int(hub.server.zeromq.rpartition(":")[2])
        client = cls(*await asyncio.open_connection("127.0.0.1", port))
        client._writer.write(GREETING + b"\x04" + bytes([len(READY)]) + READY)
        try:
            await client._reader.readexactly(64)
        except (ConnectionError, asyncio.IncompleteReadError):
            client.close()
            raise
        return client

    async def send(self, most: int) -> None:
        """Until so much was sent, or the connection is over."""
        piece = 64 * 1024
        frame = b"\x03" + piece.to_bytes(8, "big") + bytes(piece)
        with contextlib.suppress(ConnectionError):
            while self.sent < most:
                self._writer.write(frame)
                await self._writer.drain()
                self.sent += piece

    async def over(self) -> None:
        with contextlib.suppress(ConnectionError):
            while await self._reader.read(4096):
                pass

    def close(self) -> None:
        self._writer.close()


async def test_a_message_that_never_ends_is_cut_off_and_others_are_served(
    start_server: StartHub,
) -> None:
    hub = await start_server(topic_hub(), zeromq__endpoint=ANY_PORT)
    relay = relay_of(hub)
    endless = await Endless.connect(hub)
    await asyncio.wait_for(endless.send(400 * MEGABYTE), 30)
    assert endless.sent < 32 * MEGABYTE  # what the bound, and buffers of the system, take
    await endless.over()
    assert (relay.cut, relay.total) == (1, 0)
    async with zeromq_clients(hub) as clients:
        assert await clients.make().put("acme", "news", "hello") == 1
    assert relay.total == 0
    endless.close()


async def test_many_messages_that_never_end_have_one_bound_together(start_server: StartHub) -> None:
    """Each is below the bound of a connection."""
    hub = await start_server(
        topic_hub(), zeromq__endpoint=ANY_PORT, zeromq__maxBufferedBytes=8 * MEGABYTE
    )
    relay = relay_of(hub)
    many = [await Endless.connect(hub) for _ in range(20)]
    for each in many:
        await each.send(MEGABYTE)
    async with asyncio.timeout(20), zeromq_clients(hub) as clients:
        client = clients.make()
        while relay.cut < 12:  # served meanwhile, again and again
            await client.put("acme", "news", "hello")
            assert relay.total <= 8 * MEGABYTE
    for each in many:
        each.close()


async def test_so_many_connections_are_taken(start_server: StartHub) -> None:
    hub = await start_server(topic_hub(), zeromq__endpoint=ANY_PORT, zeromq__maxConnections=2)
    first, second = await Endless.connect(hub), await Endless.connect(hub)
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await Endless.connect(hub)
    for each in (first, second):
        each.close()


async def test_encrypted_messages_are_counted_too(start_server: StartHub, tmp_path: Path) -> None:
    public, secret = zmq.curve_keypair()
    hub = await start_server(
        topic_hub(),
        zeromq__endpoint=ANY_PORT,
        zeromq__curve__secretKeyFile=str(tmp_path / "curve.key"),
        zeromq__curve__allowUnknown=True,
    )
    relay = relay_of(hub)
    server = zmq.curve_public((tmp_path / "curve.key").read_bytes().strip())
    async with zeromq_clients(hub) as clients:
        keys = {"curve_publickey": public, "curve_secretkey": secret, "curve_serverkey": server}
        client = clients.make(zmq.DEALER, **keys)
        for size in (1, 300, 100_000):
            assert (await client.ask("", "put", "acme", "news", "x" * size))[1] == b"PutReply"
            assert relay.total == 0
        await client.send("", *["x" * 100_000] * 100)
        while not relay.cut:
            await asyncio.sleep(0.01)
        assert relay.total < 4 * MEGABYTE
