"""Packets of socket.io protocol 1 (socket.io 0.8), in which the JavaScript client of 2012 speaks.

A packet is a text frame `type:id:endpoint:data`. Packets of a client are read as the frames that a
WebSocket client would have sent without socket.io: an event is a text, a heartbeat a pong, a
disconnect a close. So the codec of `hubbub.hubiquitus.v1` serves both.

    < 1::
    > 5:::{"name":"hConnect","args":[{"publisher":"ann@demo","password":"<token>"}]}
    < 2::
    > 2::
    > 0::
"""

from __future__ import annotations

import re
from typing import Final

from hubbub.protocols.websocket import Event, FrameError, FrameReader, Opcode

CONNECT: Final = b"1::"
HEARTBEAT: Final = b"2::"
DISCONNECT: Final = b"0::"
_EVENT: Final = b"5:::"
_PACKET: Final = re.compile(rb"([0-8]):[0-9]{0,20}\+?:([^:]{0,255})(?::(.*))?", re.DOTALL)
_UNREADABLE: Final = Event(Opcode.TEXT, b"")
_WITHOUT_MEANING: Final = frozenset(b"168")
"""Packet types without effect: connect, acknowledgement, no operation."""
_LEAVE: Final = Event(Opcode.CLOSE, b"")
_ALIVE: Final = Event(Opcode.PONG, b"")


def handshake_answer(sid: str, heartbeat_seconds: int, close_seconds: int) -> bytes:
    """The response to a client's handshake: heartbeat interval, close timeout, and the only
    transport."""
    return f"{sid}:{heartbeat_seconds}:{close_seconds}:websocket".encode()


def write_event(event: bytes) -> bytes:
    """`event` is an event of Hubiquitus as JSON."""
    return _EVENT + event


def read_packet(text: bytes) -> Event | None:
    """The frame for a packet; None if the packet has no effect. An invalid packet, one with an
    endpoint, and one of another type become an empty text, which the codec rejects."""
    if text.startswith(_EVENT):
        return Event(Opcode.TEXT, text[len(_EVENT) :])
    found = _PACKET.fullmatch(text)
    if found is None or found[2]:
        return _UNREADABLE
    kind = found[1]
    if kind == b"5":
        return Event(Opcode.TEXT, found[3] or b"")
    if kind == b"2":
        return _ALIVE
    if kind == b"0":
        return _LEAVE
    return None if kind[0] in _WITHOUT_MEANING else _UNREADABLE


class PacketReader(FrameReader):
    """Reads frames that hold one packet each."""

    __slots__ = ()

    def read_alone(self, data: bytes, opcode: int) -> bytes | None:
        """None: `feed` reads what is in the packet."""

    def feed(self, data: bytes) -> list[Event]:
        try:
            return _unpacked(super().feed(data))
        except FrameError as error:
            error.events = _unpacked(error.events)
            raise


def _unpacked(events: list[Event]) -> list[Event]:
    read = (read_packet(each.data) if each.opcode is Opcode.TEXT else each for each in events)
    return [each for each in read if each is not None]
