"""Messages of QoS 1 and 2 on their way to one client: packet ids, what is acknowledged, and what
waits because the client's window is full."""

from __future__ import annotations

from collections import deque

from hubbub.protocols.mqtt.packets import PUBACK, PUBCOMP, PUBREC, PUBREL
from hubbub.protocols.mqtt.reasons import Reason
from hubbub.protocols.mqtt.writing import ack, numbered

MAX_ID = 65_535


class DeliveryWindow:
    """At most `most` messages are unacknowledged; the others wait, in order."""

    __slots__ = ("_last_id", "_most", "_sent", "_version", "_waiting", "waiting_bytes")

    def __init__(self, version: int, most: int) -> None:
        self._version = version
        self._most = most
        self._last_id = 0
        self._sent: dict[int, int] = {}
        """The packet that each id waits for: PUBACK, PUBREC or PUBCOMP."""
        self._waiting: deque[bytes] = deque()
        self.waiting_bytes = 0

    @property
    def in_flight(self) -> int:
        return len(self._sent)

    def send(self, packet: bytes) -> bytes:
        """What may be written now of a PUBLISH (its packet id is not set) and of those before
        it."""
        self._waiting.append(packet)
        self.waiting_bytes += len(packet)
        return self._released()

    def _released(self) -> bytes:
        written = []
        while self._waiting and len(self._sent) < self._most:
            packet = self._waiting.popleft()
            self.waiting_bytes -= len(packet)
            if packet[0] & 6:
                packet = numbered(packet, self._next_id(packet))
            written.append(packet)
        return b"".join(written)

    def _next_id(self, packet: bytes) -> int:
        found = self._last_id % MAX_ID + 1
        while found in self._sent:
            found = found % MAX_ID + 1
        self._last_id = found
        self._sent[found] = PUBACK if packet[0] & 2 else PUBREC
        return found

    def acknowledged(self, kind: int, packet_id: int, reason: int) -> bytes:
        """What is to be written after a PUBACK, PUBREC or PUBCOMP."""
        expected = self._sent.get(packet_id)
        if kind == PUBREC:
            if expected is None or expected == PUBACK:
                return ack(self._version, PUBREL, packet_id, Reason.PACKET_ID_NOT_FOUND)
            if reason < 0x80:
                self._sent[packet_id] = PUBCOMP
                return ack(self._version, PUBREL, packet_id)
            expected = kind
        if expected != kind:
            return b""
        del self._sent[packet_id]
        return self._released()
