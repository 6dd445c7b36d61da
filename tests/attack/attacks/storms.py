"""Storms: much of something small, made by a tenant's clients."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import math
import time
from collections.abc import Iterator

from attack.arena import RED, Arena, Findings, attack
from attack.clients import (
    GONE,
    Line,
    Refused,
    Socket,
    drop,
    for_seconds,
    frame,
    request,
)

_SLOW, _ALL = 20, 300


def _envelopes(event: str, payloads: Iterator[dict[str, object]], count: int) -> bytes:
    return b"".join(
        frame(json.dumps({"event": event, "payload": next(payloads)}).encode())
        for _ in range(count)
    )


async def _storm(
    arena: Arena,
    seconds: float,
    event: str,
    payloads: Iterator[dict[str, object]],
    sessions: int,
    per_second: float = 100,
) -> Findings:
    """Sessions that send at the rate that the shipped limits allow, and begin anew when the hub
    ends them."""
    found = Findings()

    async def one() -> None:
        while True:
            try:
                socket = await Socket.connect(arena)
            except Refused as refused:
                found.answers[refused.answer.label] += 1
                await asyncio.sleep(0.2)
                continue
            reading = asyncio.ensure_future(socket.codes(found.answers))
            try:
                while not reading.done():
                    socket.send(_envelopes(event, payloads, 10))
                    found.answers["sent"] += 10
                    await asyncio.sleep(10 / per_second)
            except GONE:
                pass
            finally:
                reading.cancel()
                socket.drop()

    await for_seconds(seconds, *(one() for _ in range(arena.many(sessions))))
    return found


def _numbered(make: str) -> Iterator[dict[str, object]]:
    number = 0
    while True:
        number += 1
        payload: dict[str, object] = json.loads(make.replace("@", str(number)))
        yield payload


@attack("flood", "50 sessions subscribe to new channels all the time, 100 requests/s each")
async def channel_storm(arena: Arena, seconds: float) -> Findings:
    make = '{"reqID": 1, "channels": [{"channel": "storm-@"}]}'
    return await _storm(arena, seconds, "Subscribe", _numbered(make), 50)


@attack("flood", "50 sessions publish to new channels with live history, 100 requests/s each")
async def history_storm(arena: Arena, seconds: float) -> Findings:
    text = "x" * 10_000
    make = '{"publishes": [{"channel": "live-@", "payload": {"text": "' + text + '"}}]}'
    return await _storm(arena, seconds, "Publish", _numbered(make), 50)


@attack("flood", "10 sessions publish 200 KB to new channels with live history, 20 times a second")
async def large_histories(arena: Arena, seconds: float) -> Findings:
    text = "x" * 200_000
    make = '{"publishes": [{"channel": "large-@", "payload": {"text": "' + text + '"}}]}'
    return await _storm(arena, seconds, "Publish", _numbered(make), 10, 20)


@attack("flood", "100 sessions join and leave a channel with presence, 300 look on")
async def presence_storm(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    watchers: list[Socket] = []
    channel = {"reqID": 1, "channels": [{"channel": "crowd:hall"}]}
    join = frame(json.dumps({"event": "Subscribe", "payload": channel}).encode())
    leaving = {"reqID": 1, "channels": ["crowd:hall"]}
    leave = frame(json.dumps({"event": "Unsubscribe", "payload": leaving}).encode())

    async def watch() -> None:
        socket = await Socket.connect(arena)
        watchers.append(socket)
        socket.send(join)
        await socket.codes(found.answers)

    async def come_and_go() -> None:
        while True:
            try:
                async with await Socket.connect(arena) as socket:
                    reading = asyncio.ensure_future(socket.codes(found.answers))
                    while not reading.done():
                        socket.send(join + leave)
                        await asyncio.sleep(0.02)
            except Refused as refused:
                found.answers[refused.answer.label] += 1
                await asyncio.sleep(0.2)

    jobs = [watch() for _ in range(arena.many(300))]
    jobs += [come_and_go() for _ in range(arena.many(100))]
    await for_seconds(seconds, *jobs)
    drop(watchers)
    return found


@attack(
    "flood", "durable subscriptions under ever new names, on 20 connections with a client's token"
)
async def subscription_storm(arena: Arena, seconds: float) -> Findings:
    return await _put_storm(
        arena, seconds, "PUT", f"/v1/hubs/{RED}/topics/log%3As/subscriptions/s@?start=first"
    )


@attack("flood", "webhooks to ever new callbacks, on 20 connections with a client's token")
async def webhook_storm(arena: Arena, seconds: float) -> Findings:
    order = {"channel": "log:hooks", "callback": arena.url("/ok/storm?@")}
    return await _put_storm(arena, seconds, "POST", f"/v1/hubs/{RED}/webhooks", order)


@attack("flood", "producers under ever new ids, on 20 connections with a client's token")
async def producer_storm(arena: Arena, seconds: float) -> Findings:
    return await _put_storm(arena, seconds, "POST", f"/v1/hubs/{RED}/topics/log%3Ap/producers/p@")


@attack("flood", "ever new paths, methods and hubs, which must not become labels of metrics")
async def label_storm(arena: Arena, seconds: float) -> Findings:
    found = await _put_storm(arena, seconds, "GET", "/v1/hubs/hub@/channels/c@/messages")
    async with await Line.open(arena) as line:
        answer = await line.ask("GET", "/metrics", arena.tokens["admin"])
    found.note = f"/metrics has {len(answer.body):,} bytes afterwards"
    found.expect(len(answer.body) < 1 << 20, f"/metrics grew to {len(answer.body):,} bytes")
    return found


async def _put_storm(
    arena: Arena, seconds: float, method: str, path: str, body: object = b""
) -> Findings:
    """Requests one after another; `@` in path and body becomes a running number."""
    found = Findings()
    number = 0

    async def one() -> None:
        nonlocal number
        while True:
            async with await Line.open(arena) as line:
                with contextlib.suppress(*GONE):
                    while True:
                        number += 1
                        this = (
                            json.loads(json.dumps(body).replace("@", str(number))) if body else b""
                        )
                        target = path.replace("@", str(number))
                        answer = await line.ask(method, target, arena.tokens["ann"], this)
                        found.answers[answer.label] += 1

    await for_seconds(seconds, *(one() for _ in range(20)))
    return found


@attack("flood", "authenticated sessions that come and go, and leave restore keys behind")
async def restore_key_storm(arena: Arena, seconds: float) -> Findings:
    found = Findings()

    async def churn() -> None:
        while True:
            try:
                async with await Socket.connect(arena, arena.tokens["ann"]) as socket:
                    said = await socket.find("SessionRestore")
                    found.answers[said["event"]] += 1
            except Refused as refused:
                found.answers[refused.answer.label] += 1

    await for_seconds(seconds, *(churn() for _ in range(16)))
    return found


@attack(
    "flood", "500 subscribers that read nothing of a channel with 100 messages of 20 KB a second"
)
async def slow_readers(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    deaf: list[Socket] = []
    for _ in range(arena.many(500)):
        with contextlib.suppress(*GONE, Refused):
            socket = await Socket.connect(arena, receive_buffer=4096)
            socket.say("Subscribe", reqID=1, channels=[{"channel": "loud"}])
            socket.stop_reading()
            deaf.append(socket)
    await for_seconds(seconds, _publish_loudly(arena, 100, 20_000, "loud"))
    found.note = f"{len(deaf)} subscribers"
    drop(deaf)
    return found


async def _publish_loudly(arena: Arena, per_second: float, size: int, channel: str) -> None:
    path = f"/v1/hubs/{RED}/channels/{channel}/messages"
    async with await Line.open(arena) as line:
        due = time.monotonic()
        while True:
            stamp = str(time.monotonic_ns()).encode()
            await line.ask("POST", path, arena.tokens[RED], b"t%b|" % stamp + b"x" * size)
            due += 1 / per_second
            await asyncio.sleep(max(0.0, due - time.monotonic()))


@attack("5", "20 slow readers among the first of 300 subscribers of a busy channel")
async def slow_among_first(arena: Arena, seconds: float) -> Findings:
    """The other subscribers are measured here, with and without the slow ones."""
    found = Findings()
    without = await _ages(arena, seconds / 2, 0)
    beside = await _ages(arena, seconds / 2, _SLOW)
    quiet, late = (_percentile(ages, 0.9) * 1e3 for ages in (without, beside))
    found.note = f"p90 of the others {late:.0f} ms, {quiet:.0f} ms without slow ones"
    found.expect(late < max(50.0, 3 * quiet), f"the others' p90 is {late:.0f} ms, not {quiet:.0f}")
    return found


async def _ages(arena: Arena, seconds: float, slow: int) -> list[float]:
    """How old messages are when the last of the subscribers that read get them."""
    ages: list[float] = []
    opened: list[Socket] = []
    for number in range(slow + 30):
        socket = await Socket.connect(arena, receive_buffer=4096 if number < slow else 0)
        opened.append(socket)
        socket.say("Subscribe", reqID=1, channels=[{"channel": "busy"}])
        await socket.find("Subscribe")
        if number < slow:
            socket.stop_reading()

    async def listen(socket: Socket) -> None:
        while data := await socket.reader.read(1 << 20):
            at = data.rfind(b'"text":"t')
            end = data.find(b"|", at) if at >= 0 else -1
            if end > 0:
                ages.append((time.monotonic_ns() - int(data[at + 9 : end])) / 1e9)

    jobs = [listen(socket) for socket in opened[slow:]]
    await for_seconds(
        seconds, *jobs, _publish_loudly(arena, 100, 9_000, "busy"), _burst(arena, "busy")
    )
    drop(opened)
    return ages


async def _burst(arena: Arena, channel: str) -> None:
    """Many messages at once, again and again, so that much waits in one turn of the loop."""
    item = {"channel": channel, "payload": {"text": "x" * 9_000}}
    text = request(
        "POST", f"/v1/hubs/{RED}/messages", arena.tokens[RED], {"publishes": [item] * 20}
    )
    async with await Line.open(arena) as line:
        while True:
            line.send(text)
            await line.answer()
            await asyncio.sleep(0.2)


def _percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[math.ceil(share * len(ordered)) - 1] if ordered else math.inf


_DOCUMENT = f"/v1/hubs/{RED}/channels/doc%3Alarge/document"


async def _write_document(arena: Arena) -> None:
    """In parts, each about as large as a change may be."""
    rows = [{"n": number, "text": "x" * 20} for number in range(5_000)]
    patch = {"Content_Type": "application/merge-patch+json"}
    async with await Line.open(arena) as line:
        for part in "abcd":
            change = {"parts": {part: rows}}
            answer = await line.ask("PATCH", _DOCUMENT, arena.tokens[RED], change, **patch)
            if answer.status != 200:
                raise RuntimeError(f"the document was not written: {answer.label}")


async def _ask_again(arena: Arena, seconds: float, path: str, count: int) -> Findings:
    """Connections that ask for the same as fast as they are answered."""
    found = Findings()
    await _write_document(arena)

    async def ask() -> None:
        async with await Line.open(arena) as line:
            while True:
                answer = await line.ask("GET", path, arena.tokens[RED])
                found.answers[answer.label] += 1

    await for_seconds(seconds, *(ask() for _ in range(arena.many(count))))
    return found


@attack("flood", "16 connections read a document of 800 KB as it was before its last change")
async def old_documents(arena: Arena, seconds: float) -> Findings:
    return await _ask_again(arena, seconds, f"{_DOCUMENT}?at=3", 16)


@attack("flood", "16 connections read a part of a document, all but a few of its 800 KB")
async def parts_of_documents(arena: Arena, seconds: float) -> Findings:
    return await _ask_again(arena, seconds, f"{_DOCUMENT}?path=/parts", 16)


@attack("flood", "16 connections replace a quarter of a document of 800 KB, again and again")
async def large_changes(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    rows = [{"n": number, "text": "x" * 20} for number in range(5_000)]
    change = json.dumps({"parts": {"a": rows}}).encode()
    patch = {"Content_Type": "application/merge-patch+json"}

    async def ask() -> None:
        async with await Line.open(arena) as line:
            while True:
                answer = await line.ask("PATCH", _DOCUMENT, arena.tokens[RED], change, **patch)
                found.answers[answer.label] += 1

    await _write_document(arena)
    await for_seconds(seconds, *(ask() for _ in range(arena.many(16))))
    return found


@attack("flood", "16 connections move a part of 700 KB to and fro, 1,000 times in a patch")
async def moving_patches(arena: Arena, seconds: float) -> Findings:
    return await _move(arena, seconds, "/")


@attack("flood", "16 connections move a part of 700 KB deeper and back, 1,000 times in a patch")
async def deepening_patches(arena: Arena, seconds: float) -> Findings:
    return await _move(arena, seconds, "/below/")


async def _move(arena: Arena, seconds: float, below: str) -> Findings:
    found = Findings()
    path = f"/v1/hubs/{RED}/channels/doc%3Amoved/document"
    headers = {"Content_Type": "application/json-patch+json"}
    async with await Line.open(arena) as line:
        parts: list[list[object]] = [[[] for _ in range(60_000)] for _ in range(4)]
        await line.ask("PUT", path, arena.tokens[RED], {"below": {}, "part": {}})
        for number, part in enumerate(parts):
            fill = [{"op": "add", "path": f"/part/{number}", "value": part}]
            answer = await line.ask("PATCH", path, arena.tokens[RED], fill, **headers)
            if answer.status != 200:
                raise RuntimeError(f"the document was not written: {answer.label}")
    to_and_fro = [
        {"op": "move", "from": "/part", "path": f"{below}other"},
        {"op": "move", "from": f"{below}other", "path": "/part"},
    ]
    patch = json.dumps(to_and_fro * 500).encode()

    async def ask() -> None:
        async with await Line.open(arena) as line:
            while True:
                answer = await line.ask("PATCH", path, arena.tokens[RED], patch, **headers)
                found.answers[answer.label] += 1
                answer = await line.ask("GET", f"{path}?at=5", arena.tokens[RED])
                found.answers[answer.label] += 1

    await for_seconds(seconds, *(ask() for _ in range(arena.many(16))))
    return found


@attack("flood", "16 connections register topics with keys: each changes the settings of the hub")
async def topic_registrations(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    path = f"/v1/hubs/{RED}/hub/register?key=1"

    async def register(connection: int) -> None:
        async with await Line.open(arena) as line:
            for number in itertools.count():
                topic = f"registered-{time.monotonic_ns()}-{connection}-{number}"
                answer = await line.ask("PUT", path, arena.tokens[RED], topic.encode())
                found.answers[answer.label] += 1

    await for_seconds(seconds, *(register(number) for number in range(arena.many(16))))
    found.expect(found.answers["201"], f"no topic was registered: {dict(found.answers)}")
    return found
