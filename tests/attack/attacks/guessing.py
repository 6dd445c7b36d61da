"""Guessing credentials, and publishing without any."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time

from attack.arena import BLUE, RED, Arena, Findings, attack
from attack.clients import GONE, Line, Refused, Socket, ask, for_seconds, request

_FORGED = "eyJhbGciOiJIUzI1NiIsInR5cCI6InNlc3Npb24ifQ.eyJodWIiOiJibHVlIn0.c2lnbmF0dXJl"


@attack("4", "forged tokens over HTTP from one address, 32 pipelined on each of 8 connections")
async def guessing_over_http(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    number = 0

    async def guess() -> None:
        nonlocal number
        while True:
            async with await Line.open(arena) as line:
                with contextlib.suppress(*GONE):
                    while True:
                        number += 32
                        paths = (f"/v1/hubs/{BLUE}/channels/news/messages" for _ in range(32))
                        line.send(
                            b"".join(
                                request("GET", path, f"{_FORGED}{number + more}")
                                for more, path in enumerate(paths)
                            )
                        )
                        if await line.tally(found.answers, 32) < 32:
                            break

    await for_seconds(seconds, *(guess() for _ in range(8)))
    _expect_limit(found, "guesses over HTTP", found.answers["401"], seconds)
    return found


@attack("4", "forged tokens on WebSocket handshakes from one address")
async def guessing_over_websocket(arena: Arena, seconds: float) -> Findings:
    found = Findings()

    async def guess(offset: int) -> None:
        number = offset
        while True:
            number += 16
            try:
                async with await Socket.connect(arena, f"{_FORGED}{number}", BLUE) as socket:
                    said = await socket.find("Disconnect")
                    found.answers[str(said["payload"].get("code", "closed"))] += 1
            except Refused as refused:
                found.answers[refused.answer.label] += 1

    await for_seconds(seconds, *(guess(offset) for offset in range(16)))
    _expect_limit(found, "guesses over WebSocket", found.answers["invalid_token"], seconds)
    return found


@attack("4", "passwords sent to the tenant's auth provider, in Auth after Auth from one address")
async def guessing_passwords(arena: Arena, seconds: float) -> Findings:
    """What reaches the provider counts."""
    found = Findings()
    token = arena.tokens[RED]
    provider = {"url": arena.url("/deny/passwords")}
    await ask(arena, "PUT", f"/v1/admin/hubs/{RED}/auth-providers/door", token, provider)
    settings = (await ask(arena, "GET", f"/v1/admin/hubs/{RED}/settings", token)).json
    settings["authProvider"] = "door"
    await ask(arena, "PUT", f"/v1/admin/hubs/{RED}/settings", token, settings)

    async def guess() -> None:
        while True:
            try:
                async with await Socket.connect(arena) as socket:
                    for number in range(100):
                        socket.say("Auth", reqID=number, credentials={"json": {"p": number}})
                        said = await socket.find("Auth", "Error")
                        error = said["payload"].get("error") or said["payload"]
                        found.answers[str(error.get("code", "success"))] += 1
                        if said["event"] in ("Closed", "Disconnect"):
                            break
            except Refused as refused:
                found.answers[refused.answer.label] += 1

    before = await _seen(arena, "/deny/passwords")
    await for_seconds(seconds, *(guess() for _ in range(16)))
    tried = await _seen(arena, "/deny/passwords") - before
    found.note = f"{tried} passwords reached the provider"
    _expect_limit(found, "passwords", tried, seconds)
    return found


async def _seen(arena: Arena, path: str) -> int:
    async with await Line.open(arena, port=arena.scenery) as line:
        answer = await line.ask("GET", f"/seen?path={path}")
        return int(json.loads(answer.body)["count"])


@attack("4", "logins of administrators from one address")
async def guessing_logins(arena: Arena, seconds: float) -> Findings:
    found = Findings()

    async def guess() -> None:
        while True:
            async with await Line.open(arena) as line:
                with contextlib.suppress(*GONE):
                    while True:
                        answer = await line.ask("POST", "/v1/admin/login", "", {"user": "olga"})
                        found.answers[answer.label] += 1

    await for_seconds(seconds, *(guess() for _ in range(8)))
    return found


def _expect_limit(found: Findings, what: str, tried: int, seconds: float) -> None:
    """Ten a second are more than any person needs; the first second may have a burst."""
    most = 100 + 20 * seconds
    found.expect(tried <= most, f"{tried:,} {what} in {seconds:g} s were tried, not {most:g}")


async def _publish(arena: Arena, seconds: float, token: str, sources: int) -> Findings:
    """At full speed, pipelined, from several addresses."""
    found = Findings()
    path = f"/v1/hubs/{RED}/channels/a/messages"
    text = request("POST", path, token, b'{"n":1}', Content_Type="application/json") * 32
    retry_after: list[str] = []

    async def publish(source: str) -> None:
        while True:
            async with await Line.open(arena, source) as line:
                with contextlib.suppress(*GONE):
                    while True:
                        line.send(text)
                        if await line.tally(found.answers, 32) < 32:
                            break

    async def one() -> None:
        """Looks at the headers of a refusal."""
        while not retry_after:
            async with await Line.open(arena, _source(0)) as line:
                answer = await line.ask("POST", path, token, b"1")
                if answer.status == 429:
                    retry_after.append(answer.headers.get("retry-after", ""))
            await asyncio.sleep(0.05)

    began = time.monotonic()
    for length in (seconds, 20 * seconds):  # the second where bursts outlast a slow machine's first
        jobs = [publish(_source(number % sources)) for number in range(max(8, sources))]
        await for_seconds(length, *jobs, one())
        if retry_after or found.answers["429"]:
            break
    rate = found.answers["200"] / max(0.1, time.monotonic() - began)
    found.note = f"{rate:,.0f} publishes a second accepted"
    found.expect(retry_after or found.answers["429"], "nobody was told 429")
    found.expect(all(retry_after), "a 429 had no Retry-After")
    return found


def _source(number: int) -> str:
    return f"127.0.3.{1 + number}"


@attack("4", "anonymous HTTP publishes at full speed from one address")
async def anonymous_publishing(arena: Arena, seconds: float) -> Findings:
    found = await _publish(arena, seconds, "", 1)
    accepted = found.answers["200"]
    found.expect(accepted <= 1000 + 500 * seconds, f"{accepted:,} were accepted in {seconds:g} s")
    return found


@attack("4", "anonymous HTTP publishes at full speed from 64 addresses")
async def anonymous_publishing_from_many(arena: Arena, seconds: float) -> Findings:
    return await _publish(arena, seconds, "", 64)


@attack("4", "HTTP publishes with one client's token at full speed from 64 addresses")
async def one_identity_from_many(arena: Arena, seconds: float) -> Findings:
    found = await _publish(arena, seconds, arena.tokens["ann"], 64)
    accepted = found.answers["200"]
    found.expect(accepted <= 1000 + 500 * seconds, f"{accepted:,} were accepted in {seconds:g} s")
    return found
