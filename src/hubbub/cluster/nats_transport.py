"""Datagrams between nodes over NATS: batched, sealed, and split if they are too large.

Each node listens on a subject of its own and on a common one. Datagrams to a node in one turn of
the event loop are sent as one message. If NATS is unavailable or lags far behind, datagrams are
lost: the bus repeats those that must arrive."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from hubbub.cluster.nats_connection import NatsConnection
from hubbub.cluster.sealing import ALL, Packet, Seals

logger = logging.getLogger(__name__)

MAX_WAITING_BYTES = 64 * 1024 * 1024
LETTER_BYTES = 64 * 1024
"""Maximum size of a batch; larger ones would delay later datagrams."""
FLUSH_SECONDS = 1.0
_OVERHEAD_BYTES = 1024
_MAX_PIECES_BYTES = 128 * 1024 * 1024

Heard = Callable[[str, bytes], None]
"""Called with the sender and the datagram."""
Alive = Callable[[str, str], None]
"""Called with a node and its incarnation."""


class NatsTransport:
    """Implements `cluster.transport.Transport` and `cluster.member.Broadcast`."""

    def __init__(self, node: str, prefix: str, connection: NatsConnection, seals: Seals) -> None:
        self._node = node
        self._prefix = prefix
        self._connection = connection
        self._seals = seals
        self._waiting: dict[str, list[bytes]] = {}
        self._waiting_bytes = 0
        self._more = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._pieces: dict[str, list[bytes]] = {}
        self._receive: Callable[[bytes], None] = _ignore
        self._hear: Heard = _ignore_heard
        self._alive: Alive = _ignore_sign
        self.lost = 0
        """The number of datagrams that were not sent."""

    async def start(self) -> None:
        await self._connection.hear(self.subject_of(self._node), self._arrived)
        await self._connection.hear(self.subject_of(ALL), self._arrived)
        self._connection.run(self._post)

    def subject_of(self, node: str) -> str:
        return f"{self._prefix}.all" if node == ALL else f"{self._prefix}.node.{node}"

    def listen(self, receive: Callable[[bytes], None]) -> None:
        self._receive = receive

    def listen_to_all(self, hear: Heard, alive: Alive) -> None:
        """Calls `hear` with each broadcast message, this node's included, and `alive` with the
        sender of every packet."""
        self._hear = hear
        self._alive = alive

    def send(self, node: str, data: bytes) -> None:
        if self._waiting_bytes > MAX_WAITING_BYTES or not self._connection.connected:
            self.lost += 1
            return
        waiting = self._waiting.get(node)
        if waiting is None:
            waiting = self._waiting[node] = []
        waiting.append(data)
        self._waiting_bytes += len(data)
        self._more.set()
        self._idle.clear()

    def say_to_all(self, data: bytes) -> None:
        self.send(ALL, data)

    async def flush(self) -> None:
        """Sends what was queued before the connection closes."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), FLUSH_SECONDS)
        await self._connection.flush()

    # -- the way out ----------------------------------------------------------------------------

    async def _post(self) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            waiting, self._waiting, self._waiting_bytes = self._waiting, {}, 0
            for node, datagrams in waiting.items():
                await self._post_to(node, datagrams)
            if not self._waiting:
                self._idle.set()

    async def _post_to(self, node: str, datagrams: list[bytes]) -> None:
        most = max(self._connection.max_payload - _OVERHEAD_BYTES, _OVERHEAD_BYTES)
        room = min(LETTER_BYTES, most)
        together: list[bytes] = []
        size = 0
        for data in datagrams:
            if together and size + len(data) > room:
                await self._say(node, tuple(together))
                together, size = [], 0
            if len(data) > most:
                await self._post_in_pieces(node, data, most)
                continue
            together.append(data)
            size += len(data) + 5
        if together:
            await self._say(node, tuple(together))

    async def _post_in_pieces(self, node: str, data: bytes, most: int) -> None:
        pieces = -(-len(data) // most)
        for piece in range(pieces):
            part = data[piece * most : (piece + 1) * most]
            await self._say(node, (part,), piece, pieces)

    async def _say(
        self, node: str, datagrams: tuple[bytes, ...], piece: int = 0, pieces: int = 1
    ) -> None:
        data = self._seals.close(node, datagrams, piece, pieces)
        await self._connection.say(self.subject_of(node), data)

    # -- the way in -----------------------------------------------------------------------------

    def _arrived(self, data: bytes) -> None:
        packet = self._seals.open(data)
        if packet is None:
            return
        self._alive(packet.sender, packet.incarnation)
        if packet.pieces > 1:
            whole = self._put_together(packet)
            if whole is not None:
                self._pass_on(packet, whole)
            return
        for datagram in packet.datagrams:
            self._pass_on(packet, datagram)

    def _pass_on(self, packet: Packet, datagram: bytes) -> None:
        """An error in handling one datagram does not end the listening."""
        try:
            if packet.receiver == ALL:
                self._hear(packet.sender, datagram)
            else:
                self._receive(datagram)
        except Exception:
            logger.exception("a datagram of node %s could not be handled", packet.sender)

    def _put_together(self, packet: Packet) -> bytes | None:
        """Pieces arrive in order or not at all; returns None until the last one."""
        pieces = self._pieces.setdefault(packet.sender, [])
        if packet.piece == 0:
            pieces.clear()
        if packet.piece != len(pieces) or not packet.datagrams:
            pieces.clear()
            return None
        pieces.append(packet.datagrams[0])
        if sum(map(len, pieces)) > _MAX_PIECES_BYTES:
            pieces.clear()
            return None
        if len(pieces) < packet.pieces:
            return None
        del self._pieces[packet.sender]
        return b"".join(pieces)


def _ignore(data: bytes) -> None:
    pass


def _ignore_heard(sender: str, data: bytes) -> None:
    pass


def _ignore_sign(node: str, incarnation: str) -> None:
    pass
