"""Payloads, names and patterns that are more work than they look."""

from __future__ import annotations

import asyncio
import contextlib
import json
import zlib

from attack.arena import RED, Arena, Findings, attack
from attack.clients import GONE, Line, Refused, Socket, ask, for_seconds, frame, request

_HEADS = (
    "/metrics",
    "/openapi.json",
    "/healthz",
    "/nosuch",
    f"/v1/hubs/{RED}/channels/a/messages",
    f"/v1/hubs/{RED}/webhooks/nosuch",
    f"/v1/hubs/{RED}/hub/nosuch",
    f"/v1/hubs/{RED}/websub",
    f"/v1/hubs/{RED}/socket",
    f"/v1/hubs/{RED}/events",
    "/v1/admin/hubs",
    "/v1/admin/nosuch",
)


@attack("8", "tokens with five grants of 250 stars, which are matched with names of 250 characters")
async def pattern_bomb(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    grants = [
        {"channel": "*a" * 124 + f"b{number}", "publish": True, "subscribe": True}
        for number in range(5)
    ]
    stars = [
        {"channel": "*" * 250 + str(number), "publish": True, "subscribe": True}
        for number in range(5)
    ]
    tokens = []
    for channels in (grants, stars):
        order = {"userID": "mallory", "channels": channels}
        answer = await ask(arena, "POST", f"/v1/admin/hubs/{RED}/tokens", arena.tokens[RED], order)
        found.answers[answer.label] += 1
        if answer.status == 201:
            tokens.append(answer.json["token"])

    async def use(token: str) -> None:
        number = 0
        async with await Socket.connect(arena, token) as socket:
            reading = asyncio.ensure_future(socket.codes(found.answers))
            while not reading.done():
                number += 1
                names = [f"secret:{'a' * 235}{number % 1000:03d}{i:03d}" for i in range(100)]
                channels = [{"channel": name} for name in names]
                socket.say("Subscribe", reqID=1, channels=channels)
                await socket.writer.drain()
                await asyncio.sleep(0.01)

    await for_seconds(seconds, *(use(token) for token in tokens * 2))
    return found


@attack("flood", "payloads of brackets 100,000 deep, over WebSocket and HTTP")
async def nested_payloads(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    deep = b"[" * 100_000 + b"]" * 100_000
    envelope = b'{"event":"Publish","payload":{"publishes":[{"channel":"a","payload":{"json":'
    text = frame(envelope + deep + b"}}]}}")
    head = request("POST", f"/v1/hubs/{RED}/channels/a/messages", arena.tokens[RED], deep)
    head = head.replace(b"\r\n\r\n", b"\r\nContent-Type: application/json\r\n\r\n", 1)

    async def over_websocket() -> None:
        while True:
            async with await Socket.connect(arena) as socket:
                reading = asyncio.ensure_future(socket.codes(found.answers))
                while not reading.done():
                    socket.send(text)
                    await socket.writer.drain()
                    await asyncio.sleep(0.02)

    async def over_http() -> None:
        while True:
            async with await Line.open(arena) as line:
                with contextlib.suppress(*GONE):
                    while True:
                        line.send(head)
                        answer = await line.answer()
                        found.answers[answer.label] += 1
                        found.expect(answer.status != 500, "a nested payload was answered 500")
                        found.expect(answer.status >= 400, "a payload 100,000 deep was accepted")
                        if found.breaches:
                            return

    await for_seconds(seconds, over_websocket(), over_http())
    return found


@attack("flood", "compressed bombs: frames and bodies that grow a thousandfold")
async def compressed_bombs(arena: Arena, seconds: float) -> Findings:
    """Compression is off as shipped: a compressed frame is a protocol error then."""
    found = Findings()
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = packer.compress(b" " * (64 << 20)) + packer.flush(zlib.Z_SYNC_FLUSH)
    bomb = bomb[:-4]
    gzip = zlib.compressobj(9, zlib.DEFLATED, 31)
    body = gzip.compress(b" " * (64 << 20)) + gzip.flush()
    post = request("POST", f"/v1/hubs/{RED}/channels/a/messages", "", body, Content_Encoding="gzip")

    async def over_websocket() -> None:
        while True:
            async with await Socket.connect(
                arena, Sec_WebSocket_Extensions="permessage-deflate"
            ) as socket:
                socket.send(frame(bomb, rsv=4))
                said = await socket.find("Error")
                found.answers[f"{said['event']} {said['payload'].get('code', '')}".strip()] += 1

    async def over_http() -> None:
        while True:
            async with await Line.open(arena) as line:
                with contextlib.suppress(*GONE):
                    while True:
                        line.send(post)
                        found.answers[(await line.answer()).label] += 1

    await for_seconds(seconds, over_websocket(), over_websocket(), over_http())
    return found


@attack("18", "HEAD with a body, numbers without end, other transfer codings, endless producer ids")
async def small_things(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    for path in _HEADS:
        said = await _until_quiet(arena, request("HEAD", path, arena.tokens["admin"]))
        _, _, body = said.partition(b"\r\n\r\n")
        found.answers[said[9:12].decode()] += 1
        found.expect(not body, f"HEAD {path} was answered with a body")
    path = f"/v1/hubs/{RED}/channels/a/messages"
    answer = await ask(arena, "POST", path, "", b"1e999", Content_Type="application/json")
    found.answers[answer.label] += 1
    found.expect(answer.status >= 400, "1e999 was accepted as JSON")
    for coding in ("gzip, chunked", "chunked, chunked", "chunked, identity", "x"):
        text = (
            f"POST {path} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: {coding}\r\n\r\n"
            "1\r\n1\r\n0\r\n\r\n"
        )
        said = await _until_quiet(arena, text.encode())
        found.answers[said[9:12].decode()] += 1
        found.expect(not said.startswith(b"HTTP/1.1 2"), f"transfer coding {coding!r} was accepted")
    long = "p" * 5_000
    answer = await ask(
        arena,
        "POST",
        f"/v1/hubs/{RED}/topics/log%3Ap/producers/{long}",
        arena.tokens["ann"],
    )
    found.answers[answer.label] += 1
    found.expect(answer.status >= 400, "a producer id of 5,000 characters was accepted")
    item = {
        "channel": "log:p",
        "payload": {"text": "x"},
        "reqID": 1,
        "producer": {"id": "q" * 5_000, "sequence": "1"},
    }
    async with await Socket.connect(arena, arena.tokens["ann"]) as socket:
        socket.say("Publish", publishes=[item])
        said_back = json.dumps(await socket.find("Ack", "Error"))
        found.expect(
            '"success": true' not in said_back, "a producer id of 5,000 characters was published"
        )
    return found


async def _until_quiet(arena: Arena, text: bytes) -> bytes:
    async with await Line.open(arena) as line:
        line.send(text)
        said = b""
        with contextlib.suppress(*GONE):
            async with asyncio.timeout(0.5):
                while data := await line.reader.read(65536):
                    said += data
        return said


@attack("18", "callbacks at addresses of metadata services")
async def metadata_addresses(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    for host in (
        "192.0.0.192",
        "168.63.129.16",
        "169.254.169.254",
        "[fd00:ec2::254]",
        "[::ffff:169.254.169.254]",
        "100.100.100.200",
    ):
        order = {"channel": "log:m", "callback": f"http://{host}/latest/meta-data"}
        answer = await ask(arena, "POST", f"/v1/hubs/{RED}/webhooks", arena.tokens[RED], order)
        found.answers[answer.label] += 1
        found.expect(answer.status >= 400, f"a webhook to {host} was accepted")
    return found


@attack("20", "messages that are too large, on a connection with other business")
async def oversized_publish(arena: Arena, seconds: float) -> Findings:
    """Over HTTP the connection stays usable; a subscription beside it never hears of it."""
    found = Findings()
    path = f"/v1/hubs/{RED}/channels/a/messages"
    async with await Socket.connect(arena) as listener:
        listener.say("Subscribe", reqID=1, channels=[{"channel": "a"}])
        await listener.find("Subscribe")
        async with await Line.open(arena) as line:
            answer = await line.ask("POST", path, "", b"x" * 500_000)
            found.answers[answer.label] += 1
            found.expect(answer.status == 413, f"an oversized publish was answered {answer.label}")
            answer = await line.ask("POST", path, "", b"y")
            found.expect(answer.status == 200, f"the next was answered {answer.label}")
        heard = await listener.find("Publish", "Error")
        found.expect(heard["event"] == "Publish", f"the subscriber heard {heard['event']}")
        with contextlib.suppress(Refused, *GONE):
            async with await Socket.connect(arena) as socket:
                socket.send(frame(b" " * 300_000))
                said = await socket.find("Error")
                found.answers[f"{said['event']} {said['payload'].get('code')}"] += 1
    return found
