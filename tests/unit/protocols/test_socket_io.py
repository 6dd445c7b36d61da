"""Packets of socket.io protocol 1, read as frames and written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protocols.hubiquitus.socket_io import (
    PacketReader,
    handshake_answer,
    read_packet,
    write_event,
)
from hubbub.protocols.websocket import Event, FrameError, Opcode

pytestmark = pytest.mark.spec("CMD-03")

UNREADABLE = Event(Opcode.TEXT, b"")


@pytest.mark.parametrize(
    ("packet", "found"),
    [
        (b'5:::{"name":"a"}', Event(Opcode.TEXT, b'{"name":"a"}')),
        (b'5:7::{"name":"a"}', Event(Opcode.TEXT, b'{"name":"a"}')),
        (b'5:7+::{"name":"a:b"}', Event(Opcode.TEXT, b'{"name":"a:b"}')),
        (b"5:::a\nb", Event(Opcode.TEXT, b"a\nb")),
        (b"2::", Event(Opcode.PONG, b"")),
        (b"2:::", Event(Opcode.PONG, b"")),
        (b"0::", Event(Opcode.CLOSE, b"")),
        (b"1::", None),
        (b"6:::4", None),
        (b"8::", None),
        (b"5::", UNREADABLE),
        (b"5:::", UNREADABLE),
        (b"3:::text", UNREADABLE),
        (b"4:::{}", UNREADABLE),
        (b"7:::1+0", UNREADABLE),
        (b"9::", UNREADABLE),
        (b"", UNREADABLE),
        (b":", UNREADABLE),
        (b"2", UNREADABLE),
        (b"22::", UNREADABLE),
        (b"5:x::{}", UNREADABLE),
        (b'5::/chat:{"name":"a"}', UNREADABLE),
        (b"0::/chat", UNREADABLE),
        (b"1::/chat", UNREADABLE),
        (b"5:" + b"1" * 100 + b"::{}", UNREADABLE),
    ],
)
def test_a_packet_stands_for_a_frame(packet: bytes, found: Event | None) -> None:
    assert read_packet(packet) == found


@given(st.binary(max_size=200))
def test_an_event_is_read_as_it_was_written(event: bytes) -> None:
    assert read_packet(write_event(event)) == Event(Opcode.TEXT, event)


@given(st.binary(max_size=100))
def test_whatever_comes_is_read(packet: bytes) -> None:
    read_packet(packet)


def masked(opcode: int, data: bytes) -> bytes:
    return bytes((0x80 | opcode, 0x80 | len(data), 0, 0, 0, 0)) + data


def test_frames_hold_one_packet_each() -> None:
    reader = PacketReader(1000)
    wire = masked(1, b"1::") + masked(1, b"5:::{}") + masked(9, b"p") + masked(1, b"2::")
    events = reader.feed(wire[:5]) + reader.feed(wire[5:])
    assert [(each.opcode, each.data) for each in events] == [
        (Opcode.TEXT, b"{}"),
        (Opcode.PING, b"p"),
        (Opcode.PONG, b""),
    ]


def test_packets_before_a_broken_frame_still_count() -> None:
    with pytest.raises(FrameError) as raised:
        PacketReader(1000).feed(masked(1, b"2::") + masked(3, b""))
    assert [each.opcode for each in raised.value.events] == [Opcode.PONG]


def test_a_handshake_names_the_session_both_times_and_the_transport() -> None:
    assert handshake_answer("abc", 35, 60) == b"abc:35:60:websocket"
