"""Seals: authenticate members on the bus, and detect replays.

All traffic between nodes is signed with a key derived from the cluster's secret, together with its
sender, its receiver and an increasing number. So an outsider on the bus can neither send as a node
nor replay a node's packets. Nothing is encrypted here; use TLS for that."""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections import Counter
from collections.abc import Callable

import msgspec

logger = logging.getLogger(__name__)

ALL = "*"
"""The receiver of broadcasts."""
SEAL_BYTES = 16
CLOCK_TOLERANCE_SECONDS = 60.0
"""Tolerated clock difference in the first packet of a node."""
_REMEMBERED_LIVES = 1000


class Packet(msgspec.Struct, frozen=True, array_like=True):
    """Datagrams from one node to another, or one piece of a datagram that is too large."""

    sender: str
    incarnation: str
    receiver: str
    number: int
    time: float
    datagrams: tuple[bytes, ...]
    piece: int = 0
    pieces: int = 1


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Packet).decode


class Seals:
    """Signs the packets of one node, and verifies those it receives."""

    def __init__(
        self, node: str, incarnation: str, cluster: str, secret: str, now: Callable[[], float]
    ) -> None:
        self._node = node
        self._incarnation = incarnation
        self._now = now
        self._key = hashlib.blake2b(
            secret.encode(), key=cluster.encode()[:64], person=b"hubbub cluster"
        ).digest()
        self._numbers: dict[str, int] = {}
        self._heard: dict[tuple[str, str, bool], int] = {}
        self.refused = 0
        self._refusals: Counter[str] = Counter()

    def close(
        self, receiver: str, datagrams: tuple[bytes, ...], piece: int = 0, pieces: int = 1
    ) -> bytes:
        number = self._numbers[receiver] = self._numbers.get(receiver, 0) + 1
        body = _encode(
            Packet(
                self._node,
                self._incarnation,
                receiver,
                number,
                self._now(),
                datagrams,
                piece,
                pieces,
            )
        )
        return body + self._sign(body)

    def open(self, data: bytes) -> Packet | None:
        """The verified packet of a member to this node; None for anything else."""
        body, seal = data[:-SEAL_BYTES], data[-SEAL_BYTES:]
        if not hmac.compare_digest(seal, self._sign(body)):
            self._refuse(
                "signed", "its signature is wrong; is cluster.secretKey the same everywhere?"
            )
            return None
        try:
            packet = _decode(body)
        except msgspec.MsgspecError as error:
            self._refuse("read", f"it cannot be read: {error}")
            return None
        if packet.receiver not in (self._node, ALL):
            self._refuse("meant", f"it is meant for {packet.receiver!r}")
            return None
        return packet if self._is_new(packet) else None

    def _is_new(self, packet: Packet) -> bool:
        stream = (packet.sender, packet.incarnation, packet.receiver == ALL)
        last = self._heard.get(stream)
        if last is None:
            skew = abs(packet.time - self._now())
            if skew > CLOCK_TOLERANCE_SECONDS:
                self._refuse(
                    "in time",
                    f"node {packet.sender!r} has a clock that is {skew:.0f} seconds off, or it was "
                    "said before",
                )
                return False
            if len(self._heard) >= _REMEMBERED_LIVES:
                del self._heard[next(iter(self._heard))]
        elif packet.number <= last:
            self.refused += 1  # doubled by a network, or said again by a stranger
            return False
        self._heard[stream] = packet.number
        return True

    def _sign(self, body: bytes) -> bytes:
        return hashlib.blake2b(body, key=self._key, digest_size=SEAL_BYTES).digest()

    def _refuse(self, not_so: str, reason: str) -> None:
        """Logs the 1st, 2nd, 4th, 8th … refusal of each kind: a flood must not fill the log or hide
        other kinds."""
        self.refused += 1
        self._refusals[not_so] += 1
        count = self._refusals[not_so]
        if count & (count - 1) == 0:
            logger.warning("refused a cluster message (%d so far): %s", count, reason)
