"""The MQTT door: what strangers and clients can send there."""

from __future__ import annotations

import asyncio
import contextlib

from attack.arena import RED, Arena, Findings, attack
from attack.clients import GONE, Line, for_seconds, now
from harness.devices import connect, publish, subscribe
from hubbub.protocols.mqtt.fields import Property
from hubbub.protocols.mqtt.reasons import Reason

_CONNACK_BYTES = 4
_CODE_AT = 3


async def _connected(arena: Arena, packet: bytes) -> Line:
    line = await Line.open(arena, port=arena.mqtt)
    line.send(packet)
    async with asyncio.timeout(10):
        await line.reader.readexactly(_CONNACK_BYTES)
    return line


def _stranger(name: str) -> bytes:
    return connect(client_id=name, user_name=f"{RED}:")


@attack("3", "half a CONNECT on 1,000 connections, and packets of 268 MB that never come", "mqtt")
async def half_open_mqtt(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    opened: list[Line] = []
    try:
        for number in range(arena.many(1_000)):
            with contextlib.suppress(*GONE):
                line = await Line.open(arena, port=arena.mqtt)
                line.send(connect()[:9] if number % 2 else b"\x10\xff\xff\xff\x7f" + bytes(60_000))
                opened.append(line)
        found.note = f"{len(opened):,} connections"
        await asyncio.sleep(seconds)
    finally:
        for line in opened:
            line.drop()
    return found


@attack("4", "wrong passwords and forged tokens over MQTT from one address", "mqtt")
async def guessing_over_mqtt(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    tried = 0

    async def guess() -> None:
        nonlocal tried
        while True:
            tried += 1
            with contextlib.suppress(*GONE):
                line = await Line.open(arena, port=arena.mqtt)
                try:
                    forged = b"eyJhbGciOiJIUzI1NiJ9.e30.%d" % tried
                    line.send(connect(user_name="blue:ann", password=forged))
                    answer = await line.reader.read(64)
                    if len(answer) > _CODE_AT:
                        found.answers[Reason(answer[_CODE_AT]).name.lower()] += 1
                finally:
                    line.drop()

    await for_seconds(seconds, *(guess() for _ in range(8)))
    guesses, most = found.answers["bad_credentials"], 100 + 20 * seconds
    found.expect(guesses <= most, f"{guesses:,} guesses in {seconds:g} s were tried, not {most:g}")
    return found


@attack("flood", "subscribers at QoS 1 and 2 that never acknowledge, and a publisher", "mqtt")
async def unacknowledged_mqtt(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    opened: list[Line] = []
    try:
        for number in range(arena.many(100)):
            with contextlib.suppress(*GONE):
                line = await _connected(arena, _stranger(f"deaf{number}"))
                line.send(subscribe(("crowded", 1 + number % 2)))
                opened.append(line)
        sender = await _connected(arena, _stranger("loud"))
        opened.append(sender)
        end = now() + seconds
        with contextlib.suppress(*GONE):
            while now() < end:
                sender.send(publish("crowded", b"x" * 4000) * 16)
                async with asyncio.timeout(max(0.1, end - now())):
                    await sender.writer.drain()
                await asyncio.sleep(0)
    finally:
        for line in opened:
            line.drop()
    return found


@attack("flood", "retained messages, filters over everything and pings at full speed", "mqtt")
async def storms_over_mqtt(arena: Arena, seconds: float) -> Findings:
    found = Findings()

    async def storm(number: int) -> None:
        line = await _connected(arena, _stranger(f"storm{number}"))
        try:
            end, count = now() + seconds, 0
            with contextlib.suppress(*GONE):
                while now() < end:
                    count += 1
                    topic = f"retained/{number}/{count}"
                    line.send(publish(topic, b"x" * 500, retain=True) + b"\xc0\x00" * 50)
                    line.send(subscribe(("#", 0), ("+/+/#", 1), packet_id=count % 65_000 + 1))
                    async with asyncio.timeout(max(0.1, end - now())):
                        await line.writer.drain()
                    await asyncio.sleep(0)
        finally:
            line.drop()

    await for_seconds(seconds + 2, *(storm(number) for number in range(8)))
    return found


@attack("flood", "sessions that are kept, each with a client id and a will of its own", "mqtt")
async def sessions_over_mqtt(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    opened = 0

    async def come_and_go(number: int) -> None:
        nonlocal opened
        while True:
            opened += 1
            with contextlib.suppress(*GONE):
                packet = connect(
                    client_id=f"kept{number}-{opened}", user_name=f"{RED}:", clean=False,
                    will=("wills", b"x" * 10_000, 1, True),
                    given=((Property.SESSION_EXPIRY, 0xFFFF_FFFF),),
                )  # fmt: skip
                (await _connected(arena, packet)).drop()

    await for_seconds(seconds, *(come_and_go(number) for number in range(8)))
    found.note = f"{opened:,} sessions"
    return found
