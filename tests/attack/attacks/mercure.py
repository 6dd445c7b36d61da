"""The Mercure door: costly selectors, and updates of which nobody may know."""

from __future__ import annotations

import asyncio
import contextlib
from urllib.parse import quote, urlencode

import jwt

from attack.arena import BLUE, RED, Arena, Findings, attack
from attack.clients import GONE, Answer, Line, ask, for_seconds, request

_SECRETS = {RED: "the secret of red for its tokens", BLUE: "the secret of blue for its tokens"}
_FORM = "application/x-www-form-urlencoded"
_LONG = "https://x/" + "a" * 2000
_STREAMS = 60


def _path(hub: str) -> str:
    return f"/v1/hubs/{hub}/mercure"


def _token(hub: str, **claims: object) -> str:
    claim = {"publish": ["*"], "subscribe": ["*"]}
    return jwt.encode({"mercure": claim, **claims}, _SECRETS[hub], "HS256")


async def _give_keys(arena: Arena) -> None:
    for hub, secret in _SECRETS.items():
        path = f"/v1/admin/hubs/{hub}/mercure-keys/attack"
        await ask(arena, "PUT", path, arena.tokens[hub], {"key": secret})


async def _publish(arena: Arena, hub: str, token: str, **fields: str) -> Answer:
    body = urlencode(fields).encode()
    return await ask(arena, "POST", _path(hub), token, body, Content_Type=_FORM)


@attack(
    "mercure", "streams with 90 templates that make expressions backtrack, and updates to match"
)
async def mercure_selectors(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    await _give_keys(arena)
    token = _token(RED)

    async def follow(number: int) -> None:
        templates = "&".join(
            "topic=" + quote("{+a}" + "{b}a" * (each % 7 + 1) + f"{number}.{each}")
            for each in range(90)
        )
        while True:
            with contextlib.suppress(*GONE):
                async with await Line.open(arena) as line:
                    line.send(request("GET", f"{_path(RED)}?{templates}", token))
                    await line.tally(found.answers)
            await asyncio.sleep(0.2)

    async def publish() -> None:
        while True:
            answer = await _publish(arena, RED, token, topic=_LONG, data="x" * 1000)
            found.answers[answer.label] += 1

    floods = [publish() for _ in range(4)]
    await for_seconds(seconds, *(follow(number) for number in range(_STREAMS)), *floods)
    found.expect(found.answers["200"], "control: no update was published")
    return found


@attack(
    "mercure", "private updates of another tenant, by its log, by tokens of others and by cookie"
)
async def mercure_private_updates(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    await _give_keys(arena)
    own = await _publish(arena, BLUE, _token(BLUE), topic="a", data="blue's own", private="on")
    found.expect(own.status == 200, f"control: blue cannot publish: {own.label}")
    page = {"Origin": "https://red.example", "Sec_Fetch_Site": "cross-site"}
    cookie = {"Cookie": f"mercureAuthorization={_token(BLUE)}"}
    log = f"/v1/hubs/{BLUE}/channels/mercure:log"
    stream = f"{_path(BLUE)}?topic=*&lastEventID=earliest"
    foreign = jwt.encode({"mercure": {"subscribe": ["*"]}}, "x" * 32, "HS256")
    for what, method, path, token, headers in (
        ("the key of red", "GET", stream, _token(RED), {}),
        ("a foreign key", "GET", stream, foreign, {}),
        ("a token of red", "GET", stream, arena.tokens[RED], {}),
        ("nobody", "GET", stream, "", {}),
        ("a foreign page with the cookie", "GET", stream, "", {**page, **cookie}),
        ("the log, by red", "GET", f"{log}/messages", arena.tokens[RED], {}),
        ("the log, by the key for Mercure", "GET", f"{log}/messages", _token(BLUE), {}),
        ("subscriptions", "GET", f"{_path(BLUE)}/subscriptions", _token(RED), {}),
    ):
        answer = await ask(arena, method, path, token, **headers)
        found.answers[answer.label] += 1
        found.expect(answer.status in (401, 403, 429), f"{what}: {answer.label}")
        found.expect(b"blue's own" not in answer.body, f"{what} shows the update")
    form = await ask(
        arena, "POST", _path(BLUE), "", b"topic=a&data=x", Content_Type=_FORM, **page, **cookie
    )
    found.expect(form.status == 403, f"a form of a foreign page publishes: {form.label}")
    async with await Line.open(arena) as line:
        line.send(request("GET", stream, _token(BLUE)))
        with contextlib.suppress(*GONE):
            async with asyncio.timeout(5):
                said = await line.reader.readuntil(b"blue's own")
                found.expect(said.startswith(b"HTTP/1.1 200"), "control: blue reads no update")
    return found
