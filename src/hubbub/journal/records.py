"""The form of an open segment: a magic word, then records with a length and a checksum.

    8 bytes   HBJRNL2\\n
    records   u32 length, u32 CRC-32 of the body (both little-endian), body

A body is a msgpack array of events, each a map of the fields that it has, and of runs of published
messages (`journal.runs`), each an array. A crash can leave half a record at the end: a segment is
good up to its first bad record. Segments of the first version (HBJRNL1) have no runs.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from hubbub.domain.journal import TELEMETRY_LOST, JournalEvent
from hubbub.journal.runs import Run, unpack

MAGIC: Final = b"HBJRNL2\n"
_READABLE: Final = (MAGIC, b"HBJRNL1\n")
MAX_BODY_BYTES: Final = 64 * 1024 * 1024
"""More than any writer puts into one record: a greater length means corruption."""

_HEAD = struct.Struct("<II")
_decode_packed = msgspec.msgpack.Decoder(list[JournalEvent | Run]).decode
_decode_raw = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_decode_part = msgspec.msgpack.Decoder(JournalEvent | Run).decode


class NotASegment(Exception):
    """The file does not begin with the magic word."""


def head_of(body: bytes) -> bytes:
    """The header that precedes the body."""
    return _HEAD.pack(len(body), zlib.crc32(body))


def read_bodies(file: BinaryIO) -> Iterator[bytes]:
    """Yields the bodies of all valid records. Afterwards the file position is after the last
    one."""
    if file.read(len(MAGIC)) not in _READABLE:
        raise NotASegment
    end = file.tell()
    while True:
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            break
        length, checksum = _HEAD.unpack(head)
        body = file.read(length) if length <= MAX_BODY_BYTES else b""
        if len(body) < length or zlib.crc32(body) != checksum or length > MAX_BODY_BYTES:
            break
        yield body
        end = file.tell()
    file.seek(end)


def events_of(body: bytes) -> list[JournalEvent]:
    """The events of one record. An undecodable event becomes `journal.lost`, so that it is
    counted."""
    try:
        return unpack(_decode_packed(body))
    except msgspec.MsgspecError:
        return _readable(body)


def _readable(body: bytes) -> list[JournalEvent]:
    try:
        parts = _decode_raw(body)
    except msgspec.MsgspecError:
        return [_unreadable(1, 0)]
    packed: list[JournalEvent | Run] = []
    bad = 0
    for part in parts:
        try:
            packed.append(_decode_part(part))
        except msgspec.MsgspecError:
            bad += 1
    events = unpack(packed)
    if bad:
        events.append(_unreadable(bad, events[-1].at if events else 0))
    return events


def _unreadable(count: int, at: int) -> JournalEvent:
    return JournalEvent(TELEMETRY_LOST, at, "", count=count, reason="unreadable")


def read_events(path: Path) -> Iterator[JournalEvent]:
    """All events up to the first invalid record. Raises `NotASegment`."""
    with path.open("rb") as file:
        for body in read_bodies(file):
            yield from events_of(body)


def good_bytes(path: Path) -> int:
    """The length of the valid part of the file. Raises `NotASegment`."""
    with path.open("rb") as file:
        for _ in read_bodies(file):
            pass
        return file.tell()
