"""Messages of QoS 1 and 2 on their way to one client: packet ids, what is acknowledged, and what
waits because the client's window is full."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from hubbub.protocols.mqtt.packets import PUBACK, PUBCOMP, PUBREC, PUBREL
from hubbub.protocols.mqtt.reasons import Reason, violation
from hubbub.protocols.mqtt.writing import ack, numbered

MAX_ID = 65_535


class UnnumberedPublish(bytes):
    """A PUBLISH whose packet id is not set, with its message's place. (A subclass of `bytes` cannot
    have slots.)"""

    channel: str
    epoch: str
    serial: int

    @classmethod
    def of(cls, packet: bytes, channel: str, epoch: str, serial: int) -> UnnumberedPublish:
        made = cls(packet)
        made.channel, made.epoch, made.serial = channel, epoch, serial
        return made


class _Sent:
    """A message in flight. `packet` is None once the client has it and only releases the id."""

    __slots__ = ("expected", "packet", "size")

    def __init__(self, packet: UnnumberedPublish | None, expected: int) -> None:
        self.packet = packet
        self.expected = expected
        """The kind of the packet that it waits for: PUBACK, PUBREC or PUBCOMP."""
        self.size = 0 if packet is None else len(packet)


class DeliveryWindow:
    """At most `most` messages with at most `most_bytes` together (but at least one) are
    unacknowledged; the others wait, in order."""

    __slots__ = (
        "_last_id", "_most", "_most_bytes", "_sent", "_sent_bytes", "_version", "_waiting",
        "released", "waiting_bytes",
    )  # fmt: skip

    def __init__(self, version: int, most: int, most_bytes: int = 1 << 20) -> None:
        self.released: Callable[[UnnumberedPublish], None] | None = None
        """Called with each message that may be written."""
        self._last_id = 0
        self._sent: dict[int, _Sent] = {}
        self._sent_bytes = 0
        self._waiting: deque[UnnumberedPublish] = deque()
        self.waiting_bytes = 0
        self.tune(version, most, most_bytes)

    def tune(self, version: int, most: int, most_bytes: int) -> None:
        self._version = version
        self._most = most
        self._most_bytes = most_bytes

    @property
    def in_flight(self) -> int:
        return len(self._sent)

    @property
    def held_bytes(self) -> int:
        return self.waiting_bytes + self._sent_bytes

    def send(self, packet: UnnumberedPublish) -> bytes:
        """What may be written now of a message and of those before it."""
        self._waiting.append(packet)
        self.waiting_bytes += len(packet)
        return self._release()

    def _release(self) -> bytes:
        written = []
        while (
            self._waiting
            and len(self._sent) < self._most
            and (self._sent_bytes < self._most_bytes or not self._sent)
        ):
            packet = self._waiting.popleft()
            self.waiting_bytes -= len(packet)
            if self.released is not None:
                self.released(packet)
            written.append(numbered(packet, self._next_id(packet)) if packet[0] & 6 else packet)
        return b"".join(written)

    def _next_id(self, packet: UnnumberedPublish) -> int:
        found = self._last_id % MAX_ID + 1
        while found in self._sent:
            found = found % MAX_ID + 1
        self._last_id = found
        self._sent[found] = sent = _Sent(packet, PUBACK if packet[0] & 2 else PUBREC)
        self._sent_bytes += sent.size
        return found

    def acknowledged(self, kind: int, packet_id: int, reason: int) -> bytes:
        """What is to be written after a PUBACK, PUBREC or PUBCOMP. Raises `PacketError` if the
        packet does not belong to the message's quality of service."""
        sent = self._sent.get(packet_id)
        if sent is None:
            if kind == PUBREC and reason < 0x80:
                return ack(self._version, PUBREL, packet_id, Reason.PACKET_ID_NOT_FOUND)
            return b""
        if sent.expected != kind and not (kind == PUBREC and sent.expected == PUBCOMP):
            raise violation(f"packet id {packet_id} is acknowledged by a packet of type {kind}")
        if kind == PUBREC and reason < 0x80:
            self._sent_bytes -= sent.size
            self._sent[packet_id] = _Sent(None, PUBCOMP)
            return ack(self._version, PUBREL, packet_id)
        self._sent_bytes -= sent.size
        del self._sent[packet_id]
        return self._release()

    # -- a session that goes on -----------------------------------------------------------------

    def unacknowledged(self) -> Iterator[UnnumberedPublish]:
        """The messages in flight that the client may not have."""
        return (each.packet for each in self._sent.values() if each.packet is not None)

    def releasing(self) -> tuple[int, ...]:
        """The ids of messages that the client has, and whose PUBCOMP is missing."""
        return tuple(each for each, sent in self._sent.items() if sent.packet is None)

    def release_again(self, packet_ids: Iterable[int]) -> None:
        for packet_id in packet_ids:
            self._sent[packet_id] = _Sent(None, PUBCOMP)

    def drop_waiting(self) -> None:
        """The connection is gone; what waits is read again from the channel's history."""
        self._waiting.clear()
        self.waiting_bytes = 0

    def drop_channels(self, may_have: Callable[[str], bool]) -> None:
        """Messages of channels that the client may not have any more are not sent again."""
        for packet_id, sent in list(self._sent.items()):
            if sent.packet is not None and not may_have(sent.packet.channel):
                self._sent_bytes -= sent.size
                del self._sent[packet_id]

    def again(self) -> bytes:
        """What is sent again on a new connection, in order."""
        return b"".join(
            ack(self._version, PUBREL, packet_id)
            if sent.packet is None
            else numbered(sent.packet, packet_id, duplicate=True)
            for packet_id, sent in self._sent.items()
        )
