"""What anyone who reaches the port can do to the listener."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable

from attack.arena import RED, Arena, Findings, attack
from attack.clients import (
    GONE,
    UPGRADE,
    Line,
    Refused,
    Socket,
    for_seconds,
    frame,
    lines,
    now,
    request,
)

_PIPELINED = 6_000
_BATCH = 200


async def _pipeline(arena: Arena, seconds: float, text: bytes, found: Findings) -> None:
    """One connection that always has thousands of requests ahead of their answers."""
    end = now() + seconds
    while now() < end:
        async with await Line.open(arena) as line:
            count = arena.many(_PIPELINED)
            line.send(text * count)
            with contextlib.suppress(*GONE):
                async with asyncio.timeout(max(0.1, end - now())):
                    await line.tally(found.answers, count)


@attack("1", "6,000 pipelined GET /metrics on each of two connections")
async def pipelined_metrics(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    text = request("GET", "/metrics", arena.tokens["admin"])
    await for_seconds(seconds + 1, *(_pipeline(arena, seconds, text, found) for _ in range(2)))
    return found


@attack("1", "6,000 pipelined GET /openapi.json on each of two connections")
async def pipelined_openapi(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    text = request("GET", "/openapi.json")
    await for_seconds(seconds + 1, *(_pipeline(arena, seconds, text, found) for _ in range(2)))
    return found


@attack("1", "pipelined lists of the admin API with a service token, after 1,000 channels were set")
async def pipelined_lists(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    token = arena.tokens[RED]
    async with await Line.open(arena) as line:
        for number in range(arena.many(1_000)):
            path = f"/v1/admin/hubs/{RED}/channels/c{number}/settings"
            found.answers[(await line.ask("PUT", path, token, {"rules": "open"})).label] += 1
    text = request("GET", f"/v1/admin/hubs/{RED}/channels?limit=1000", token)
    await for_seconds(seconds + 1, *(_pipeline(arena, seconds, text, found) for _ in range(2)))
    return found


@attack("1", "pipelined requests that are refused: unknown paths, without a token")
async def pipelined_refusals(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    text = request("GET", "/v1/hubs/nosuch/channels/a/messages")
    await for_seconds(seconds + 1, *(_pipeline(arena, seconds, text, found) for _ in range(2)))
    return found


@attack("2", "5,000 pipelined GET /openapi.json on each of four connections that read nothing")
async def unread_answers(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    text = request("GET", "/openapi.json")
    async with lines(arena, 4, receive_buffer=4096) as opened:
        for line in opened:
            line.send(text * arena.many(5_000))
        await asyncio.sleep(seconds)
    return found


@attack("2", "pages of history that nobody reads, on 20 connections with a client's token")
async def unread_history(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    async with await Line.open(arena) as line:
        for _ in range(arena.many(60)):
            path = f"/v1/hubs/{RED}/channels/log%3Abig/messages"
            found.answers[
                (await line.ask("POST", path, arena.tokens[RED], b"x" * 200_000)).label
            ] += 1
    text = request(
        "GET", f"/v1/hubs/{RED}/channels/log%3Abig/messages?limit=100", arena.tokens[RED]
    )
    async with lines(arena, 20, receive_buffer=4096) as opened:
        for line in opened:
            line.send(text * 50)
        await asyncio.sleep(seconds)
    return found


@attack("2", "100 WebSocket sessions that ask for pages of history and read nothing")
async def unread_replies(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    await _fill(arena, found, ["log:pages"], 60)

    def ask(socket: Socket) -> None:
        socket.say("History", reqID=1, channel="log:pages", limit=100)

    await _deaf_sessions(arena, seconds, found, 100, ask, ask_again=True)
    return found


@attack("2", "200 WebSocket sessions that missed 12 MB of 20 channels each and read nothing")
async def unread_replays(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    channels = [f"log:missed{number}" for number in range(20)]
    await _fill(arena, found, channels, 3)
    wanted = [{"channel": channel, "serial": "0"} for channel in channels]

    def ask(socket: Socket) -> None:
        socket.say("Subscribe", reqID=1, channels=wanted)

    await _deaf_sessions(arena, seconds, found, 200, ask)
    return found


async def _fill(arena: Arena, found: Findings, channels: list[str], count: int) -> None:
    """Store so many messages of 200 KB in each channel."""
    async with await Line.open(arena) as line:
        for channel in channels:
            path = f"/v1/hubs/{RED}/channels/{channel.replace(':', '%3A')}/messages"
            for _ in range(arena.many(count)):
                answer = await line.ask("POST", path, arena.tokens[RED], b"x" * 200_000)
                found.answers[answer.label] += 1


async def _deaf_sessions(
    arena: Arena,
    seconds: float,
    found: Findings,
    count: int,
    ask: Callable[[Socket], None],
    *,
    ask_again: bool = False,
) -> None:
    """Sessions that ask, once or again and again, and read nothing."""
    opened: list[Socket] = []
    for _ in range(arena.many(count)):
        with contextlib.suppress(*GONE, Refused):
            opened.append(await Socket.connect(arena, arena.tokens[RED], receive_buffer=4096))
    for socket in opened:
        socket.stop_reading()
    end, first = now() + seconds, True
    while now() < end:
        for socket in opened if first or ask_again else ():
            with contextlib.suppress(*GONE):
                ask(socket)
        first = False
        await asyncio.sleep(0.2)
    found.note = f"{len(opened)} sessions"
    for socket in opened:
        socket.drop()


@attack("flood", "4,000 connections that say nothing")
async def half_open_tcp(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    async with lines(arena, arena.many(4_000)) as opened:
        found.note = f"{len(opened):,} connections"
        await asyncio.sleep(seconds)
    return found


@attack("flood", "2,000 TLS handshakes that stop after the first bytes", "tls")
async def half_open_tls(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    hello = bytes.fromhex("1603010200010001fc0303")
    opened: list[Line] = []
    try:
        for _ in range(arena.many(2_000)):
            with contextlib.suppress(*GONE):
                line = await Line.open(arena, port=arena.port)
                line.send(hello)
                opened.append(line)
        found.note = f"{len(opened):,} connections"
        await asyncio.sleep(seconds)
    finally:
        for line in opened:
            line.drop()
    return found


@attack("flood", "TLS handshakes as fast as one process makes them", "tls")
async def tls_churn(arena: Arena, seconds: float) -> Findings:
    found = Findings()

    async def churn() -> None:
        while True:
            (await Line.open(arena)).drop()
            found.answers["handshakes"] += 1

    await for_seconds(seconds, *(churn() for _ in range(8)))
    return found


@attack("flood", "2,000 WebSocket handshakes whose head never ends, a byte at a time")
async def slow_heads(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    text = request("GET", f"/v1/hubs/{RED}/socket", "", b"", **UPGRADE)[:-4]
    async with lines(arena, arena.many(2_000)) as opened:
        found.note = f"{len(opened):,} connections"
        for line in opened:
            line.send(text)
        end = now() + seconds
        for number in itertools.count():
            if now() > end:
                break
            for line in opened:
                line.send(b"\r\nX-%d: " % number)
            await asyncio.sleep(0.25)
    return found


@attack("flood", "500 requests whose bodies of 1 MB come a piece at a time and never end")
async def slow_bodies(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    path = f"/v1/hubs/{RED}/channels/a/messages"
    head = request("POST", path).replace(b"Content-Length: 0", b"Content-Length: 1048576")
    async with lines(arena, arena.many(500)) as opened:
        for line in opened:
            line.send(head + b"x" * 900_000)
            with contextlib.suppress(*GONE):
                await asyncio.wait_for(line.writer.drain(), 1)
        end = now() + seconds
        while now() < end:
            for line in opened:
                line.send(b"x")
            await asyncio.sleep(0.25)
        tasks = [asyncio.ensure_future(line.tally(found.answers)) for line in opened]
        await asyncio.wait(tasks, timeout=0.5)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return found


@attack("flood", "sessions that come and go as fast as one process opens them")
async def session_churn(arena: Arena, seconds: float) -> Findings:
    found = Findings()

    async def churn() -> None:
        while True:
            try:
                (await Socket.connect(arena)).drop()
                found.answers["101"] += 1
            except Refused as refused:
                found.answers[refused.answer.label] += 1

    await for_seconds(seconds, *(churn() for _ in range(16)))
    return found


@attack("flood", "a session that sends requests at full speed, past its rate limit")
async def session_flood(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    text = frame(b'{"event":"Ping","payload":{"reqID":1}}') * _BATCH
    other = frame(b'{"event":"History","payload":{"reqID":1,"channel":"log:a"}}') * _BATCH

    async def flood(text: bytes) -> None:
        while True:
            socket = await Socket.connect(arena)
            reading = asyncio.ensure_future(socket.codes(found.answers))
            with contextlib.suppress(*GONE):
                while not reading.done():
                    socket.send(text)
                    await socket.writer.drain()
                    await asyncio.sleep(0)
            socket.drop()
            await reading

    await for_seconds(seconds, *(flood(each) for each in (text, other) * 2))
    return found


@attack("17", "blank lines before a request, which then stand for the request alone")
async def request_heads(arena: Arena, seconds: float) -> Findings:
    """What a head is read as must not depend on the heads that the hub has seen before."""
    found = Findings()
    good = request("GET", "/healthz")
    for odd in (b"\n\r\n\r\n", b"\r\n\r\n", b"\r\r\n\r\n", b"\n\n", b" \r\n\r\n", b"\x00\r\n\r\n"):
        alone = await _said(arena, odd)
        for _ in range(3):
            await _said(arena, odd + good)
        after = await _said(arena, odd)
        found.answers[after[:12].decode("latin-1") or "nothing"] += 1
        found.expect(
            after[:12] == alone[:12],
            f"{odd!r} got {after[:12]!r} after it came before a request, not {alone[:12]!r}",
        )
    return found


async def _said(arena: Arena, text: bytes) -> bytes:
    """All that is answered to these bytes within a moment."""
    async with await Line.open(arena) as line:
        line.send(text)
        said = b""
        with contextlib.suppress(*GONE):
            async with asyncio.timeout(0.15):
                while data := await line.reader.read(65536):
                    said += data
        return said
