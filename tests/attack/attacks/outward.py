"""Everything that a tenant can have the hub wait for: webhooks, services, issuers, providers."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import Awaitable, Callable

from attack.arena import BLUE, RED, Arena, Findings, attack
from attack.clients import GONE, Line, Refused, Socket, ask, for_seconds

_SOON_SECONDS = 5.0


async def _seen(arena: Arena, path: str) -> int:
    async with await Line.open(arena, port=arena.scenery) as line:
        return int(json.loads((await line.ask("GET", f"/seen?path={path}")).body)["count"])


async def _put(arena: Arena, path: str, body: object, hub: str = RED) -> None:
    """A setting of a tenant, by its operator where the tenant itself may not."""
    for token in (arena.tokens[hub], arena.tokens["admin"]):
        answer = await ask(arena, "PUT", f"/v1/admin/hubs/{hub}/{path}", token, body)
        if answer.status < 300:
            return
    raise AssertionError(f"{path} could not be set: {answer.label} {answer.body[:200]!r}")


@attack("7", "30 webhooks that fail at the address where the victim has one that works")
async def failing_webhooks(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    order = {"channel": "log:mine", "callback": arena.url("/ok/mine")}
    answer = await ask(arena, "POST", f"/v1/hubs/{BLUE}/webhooks", arena.tokens[BLUE], order)
    found.expect(answer.status < 300, f"the victim's webhook was answered {answer.label}")
    for number in range(30):
        order = {"channel": "log:bad", "callback": arena.url(f"/fail/{number}")}
        answer = await ask(arena, "POST", f"/v1/hubs/{RED}/webhooks", arena.tokens[RED], order)
        found.answers[answer.label] += 1
    bad = f"/v1/hubs/{RED}/channels/log%3Abad/messages"
    good = f"/v1/hubs/{BLUE}/channels/log%3Amine/messages"
    waits: list[float] = []
    end = time.monotonic() + seconds
    async with await Line.open(arena) as line:
        while time.monotonic() < end or not waits:
            for _ in range(10):
                await line.ask("POST", bad, arena.tokens[RED], b"1")
            before = await _seen(arena, "/ok/mine")
            await line.ask("POST", good, arena.tokens[BLUE], b"1")
            waits.append(await _until(lambda: _seen(arena, "/ok/mine"), before + 1))
            if waits[-1] >= _SOON_SECONDS:
                break
    found.note = f"the victim's webhook got its messages after {max(waits) * 1e3:,.0f} ms at most"
    found.expect(max(waits) < _SOON_SECONDS, "the victim's webhook got nothing")
    return found


async def _until(count: Callable[[], Awaitable[int]], wanted: int) -> float:
    """Seconds until so many came; `_SOON_SECONDS` where they did not."""
    began = time.monotonic()
    while (waited := time.monotonic() - began) < _SOON_SECONDS:
        if await count() >= wanted:
            return waited
        await asyncio.sleep(0.02)
    return _SOON_SECONDS


@attack("7", "300 webhooks whose receiver never answers")
async def hanging_webhooks(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    order = {"channel": "log:mine", "callback": arena.url("/ok/mine-too")}
    await ask(arena, "POST", f"/v1/hubs/{BLUE}/webhooks", arena.tokens[BLUE], order)
    async with await Line.open(arena) as line:
        for number in range(arena.many(300)):
            order = {"channel": "log:slow", "callback": arena.url(f"/hang/{number}")}
            path = f"/v1/hubs/{RED}/webhooks"
            found.answers[(await line.ask("POST", path, arena.tokens[RED], order)).label] += 1
        await line.ask(
            "POST", f"/v1/hubs/{RED}/channels/log%3Aslow/messages", arena.tokens[RED], b"1"
        )
        await asyncio.sleep(min(1.0, seconds))
        good = f"/v1/hubs/{BLUE}/channels/log%3Amine/messages"
        await line.ask("POST", good, arena.tokens[BLUE], b"1")
        waited = await _until(lambda: _seen(arena, "/ok/mine-too"), 1)
    found.note = f"the victim's webhook got its message after {waited * 1e3:,.0f} ms"
    found.expect(waited < _SOON_SECONDS, "the victim's webhook got nothing")
    await asyncio.sleep(max(0.0, seconds - 2))
    return found


async def _calls(arena: Arena, found: Findings, count: int, seconds: float) -> None:
    """So many calls under way all the time."""

    async def call() -> None:
        while True:
            async with await Line.open(arena) as line:
                path = f"/v1/hubs/{RED}/rpc/hang.now"
                with contextlib.suppress(*GONE):
                    answer = await line.ask("POST", path, arena.tokens[RED], b"1")
                    found.answers[answer.label] += 1
                    if answer.status == 429:
                        await asyncio.sleep(0.1)

    await for_seconds(seconds, *(call() for _ in range(count)))


@attack("7", "200 calls of a service that never answers")
async def hanging_calls(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    slow = {"method": "hang.*", "url": arena.url("/hang/rpc"), "timeoutSeconds": 30}
    await _put(arena, "rpc-routes/slow", slow)
    quick = {"method": "quick.*", "url": arena.url("/ok/rpc"), "timeoutSeconds": 5}
    await _put(arena, "rpc-routes/quick", quick, BLUE)
    waits: list[float] = []

    async def victim() -> None:
        await asyncio.sleep(0.5)
        async with await Line.open(arena, source="127.0.0.1") as line:
            while True:
                began = time.monotonic()
                answer = await line.ask(
                    "POST", f"/v1/hubs/{BLUE}/rpc/quick.now", arena.tokens[BLUE], b"1"
                )
                waits.append(time.monotonic() - began)
                found.expect(answer.status == 200, f"the victim's call: {answer.label}")
                if answer.status != 200:
                    return
                await asyncio.sleep(0.05)

    await for_seconds(max(2.0, seconds), _calls(arena, found, 200, max(2.0, seconds)), victim())
    _note_waits(found, waits, "calls")
    return found


def _note_waits(found: Findings, waits: list[float], what: str) -> None:
    longest = max(waits, default=_SOON_SECONDS)
    found.note = f"the victim's own {what} took {longest * 1e3:,.0f} ms at most"
    found.expect(longest < _SOON_SECONDS, f"the victim's {what} took {longest:.1f} s")


def _foreign(issuer: str, number: int) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    head = {"alg": "RS256", "kid": f"k{number}", "typ": "JWT"}
    claims = {"iss": issuer, "aud": "hub", "sub": "mallory", "exp": int(time.time()) + 600}
    return f"{part(head)}.{part(claims)}.{part('signature' * 20)}"


@attack("7", "100 requests at a time with tokens of an issuer whose JWKS address never answers")
async def hanging_jwks(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    path = f"/v1/admin/hubs/{RED}/settings"
    settings = (await ask(arena, "GET", path, arena.tokens[RED])).json
    issuer = {"issuer": "https://red.example", "audience": "hub"}
    settings["trustedIssuers"] = [{**issuer, "jwksUrl": arena.url("/hang/jwks")}]
    await _put(arena, "settings", settings)
    number = 0

    async def use(where: str) -> None:
        nonlocal number
        while True:
            number += 1
            async with await Line.open(arena) as line:
                with contextlib.suppress(*GONE):
                    token = _foreign("https://red.example", number)
                    found.answers[(await line.ask("GET", where, token)).label] += 1
                    await asyncio.sleep(0.02)

    paths = (f"/v1/hubs/{RED}/channels/a/messages", f"/v1/admin/hubs/{RED}/rules")
    await for_seconds(seconds, *(use(paths[each % 2]) for each in range(100)))
    return found


@attack("7", "100 sessions at a time that authenticate at a provider which never answers")
async def hanging_provider(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    for hub, url in ((RED, "/hang/auth"), (BLUE, "/deny/auth")):
        await _put(arena, "auth-providers/door", {"url": arena.url(url)}, hub)
        path = f"/v1/admin/hubs/{hub}/settings"
        settings = (await ask(arena, "GET", path, arena.tokens[hub])).json
        settings["authProvider"] = "door"
        await _put(arena, "settings", settings, hub)

    async def knock() -> None:
        while True:
            try:
                async with await Socket.connect(arena) as socket:
                    socket.say("Auth", reqID=1, credentials={"json": {"user": "x"}})
                    said = await socket.find("Auth", "Error")
                    error = said["payload"].get("error") or said["payload"]
                    found.answers[str(error.get("code"))] += 1
            except Refused as refused:
                found.answers[refused.answer.label] += 1
                await asyncio.sleep(0.1)

    waits: list[float] = []

    async def victim() -> None:
        """Its provider answers at once, with a refusal."""
        await asyncio.sleep(0.5)
        while True:
            async with await Socket.connect(arena, hub=BLUE, source="127.0.0.9") as socket:
                began = time.monotonic()
                socket.say("Auth", reqID=1, credentials={"json": {"user": "x"}})
                said = await socket.find("Auth")
                waits.append(time.monotonic() - began)
                error = said["payload"].get("error") or said["payload"]
                code = error.get("code")
                found.expect(
                    code in ("not_authenticated", "rate_limited"), f"the victim's Auth: {code}"
                )
            await asyncio.sleep(0.5)

    await for_seconds(max(2.0, seconds), *(knock() for _ in range(100)), victim())
    _note_waits(found, waits, "authentications")
    return found


@attack("7", "WebSub subscriptions whose callbacks never answer, and pings of feeds that hang")
async def hanging_websub(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    number = 0

    async def one() -> None:
        nonlocal number
        while True:
            async with await Line.open(arena) as line:
                with contextlib.suppress(*GONE):
                    while True:
                        number += 1
                        feed = arena.url(f"/hang/feed{number % 50}")
                        callback = arena.url(f"/hang/callback{number}")
                        form = f"hub.mode=subscribe&hub.topic={feed}&hub.callback={callback}"
                        if number % 3 == 0:
                            form = f"hub.mode=publish&hub.url={feed}"
                        answer = await line.ask(
                            "POST",
                            f"/v1/hubs/{RED}/websub",
                            arena.tokens[RED],
                            form.encode(),
                            Content_Type="application/x-www-form-urlencoded",
                        )
                        found.answers[answer.label] += 1

    await for_seconds(seconds, *(one() for _ in range(20)))
    return found
