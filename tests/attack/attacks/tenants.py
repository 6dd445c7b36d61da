"""What one tenant can reach or learn of another."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable

import nats
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from attack.arena import BLUE, RED, Arena, Findings, attack
from attack.clients import Line, ask, request

_HIDDEN = re.compile(rb"\bblue\b")


@attack("6", "routes of a tenant to another's NATS subjects, and to JetStream's own", "nats")
async def nats_subjects(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    reached: list[str] = []
    connection = await nats.connect(arena.nats)
    try:
        streams = connection.jetstream()
        await streams.add_stream(name="blue", subjects=["blue.events.>"])
        for number in range(3):
            await streams.publish("blue.events.a", b"%d" % number)

        async def take(message: Msg) -> None:
            reached.append(message.subject)
            if message.reply:
                await message.respond(b"")

        for subject in ("blue.service", "hubbub.rpc.blue.>", "hubbub.auth.blue"):
            await connection.subscribe(subject, cb=take)
        await connection.flush()
        for number, subject in enumerate(
            (
                "blue.service",
                "hubbub.rpc.blue.secret",
                "blue.events.a",
                "$JS.API.STREAM.PURGE.blue",
                "$JS.API.STREAM.DELETE.blue",
                "$SYS.REQ.SERVER.PING",
                "_INBOX.x",
            )
        ):
            route = {"method": f"m{number}.*", "url": f"nats:{subject}", "timeoutSeconds": 0.5}
            path = f"/v1/admin/hubs/{RED}/rpc-routes/r{number}"
            answer = await ask(arena, "PUT", path, arena.tokens[RED], route)
            found.answers[answer.label] += 1
            found.expect(answer.status >= 400, f"a route to {subject} was accepted")
            await ask(arena, "POST", f"/v1/hubs/{RED}/rpc/m{number}.x", arena.tokens[RED], b"1")
            provider = {"url": f"nats:{subject}"}
            path = f"/v1/admin/hubs/{RED}/auth-providers/p{number}"
            answer = await ask(arena, "PUT", path, arena.tokens[RED], provider)
            found.answers[answer.label] += 1
            found.expect(answer.status >= 400, f"an auth provider at {subject} was accepted")
        await connection.flush()
        await asyncio.sleep(0.1)
        for subject in sorted(set(reached)):
            found.expect(False, f"the other tenant's subject {subject} was called")
        left = -1
        with contextlib.suppress(NatsError, Exception):
            left = (await streams.stream_info("blue")).state.messages
        found.expect(left == 3, f"the other tenant's stream has {left} messages, not 3")
    finally:
        await connection.close()
    return found


@attack("9", "metrics, ids and refusals that tell about another tenant")
async def whispers(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    for who, token in (("a stranger", ""), ("the tenant", arena.tokens[RED])):
        answer = await ask(arena, "GET", "/metrics", token)
        found.answers[f"/metrics {answer.status}"] += 1
        named = _HIDDEN.search(answer.body)
        found.expect(not named, f"/metrics names the other hub to {who}")
        for path in ("channels/a/messages", "webhooks", "events?channel=a", "subscriptions"):
            there = await _refusal(arena, f"/v1/hubs/{BLUE}/{path}", token)
            nowhere = await _refusal(arena, f"/v1/hubs/nosuchhub/{path}", token)
            found.expect(
                there == nowhere,
                f"{who} learns from {path} whether a hub exists: {there[:40]!r}, {nowhere[:40]!r}",
            )
        for path in ("rules", "settings", "sessions"):
            there = await _refusal(arena, f"/v1/admin/hubs/{BLUE}/{path}", token)
            nowhere = await _refusal(arena, f"/v1/admin/hubs/nosuchhub/{path}", token)
            found.expect(
                there == nowhere,
                f"{who} learns from the admin API's {path} whether a hub exists: "
                f"{there[:40]!r}, {nowhere[:40]!r}",
            )
    found.expect(
        not await _counts_along(arena, _publish_id),
        "message ids count all hubs' messages",
    )
    found.expect(not await _counts_along(arena, _audit_id), "audit ids count all hubs' changes")
    return found


async def _refusal(arena: Arena, path: str, token: str) -> bytes:
    """An answer without the names that the request had itself."""
    async with await Line.open(arena) as line:
        line.send(request("GET", path, token))
        answer = await line.answer()
    body = answer.body.replace(b"nosuchhub", b"H").replace(BLUE.encode(), b"H")
    return b"%d " % answer.status + body


async def _counts_along(arena: Arena, one: Callable[[Arena, str], Awaitable[str]]) -> bool:
    """Whether the distance of two ids tells how many another tenant got between them."""
    first, second = await one(arena, RED), await one(arena, RED)
    for _ in range(37):
        await one(arena, BLUE)
    third = await one(arena, RED)
    near, far = _distance(first, second), _distance(second, third)
    return near is not None and far is not None and 0 < near <= 3 and 37 <= far <= 200


def _distance(one: str, other: str) -> int | None:
    """Between the last parts that differ, read as numbers of the smallest fitting base."""
    if len(one) != len(other):
        one, other = one.zfill(len(other)), other.zfill(len(one))
    start = next((i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), None)
    if start is None:
        return 0
    for base in (10, 16, 32, 36):
        with contextlib.suppress(ValueError):
            return int(other[start:], base) - int(one[start:], base)
    return None


async def _publish_id(arena: Arena, hub: str) -> str:
    path = f"/v1/hubs/{hub}/channels/log%3Aids/messages"
    answer = await ask(arena, "POST", path, arena.tokens[hub], b"1")
    return str(answer.json.get("id") or answer.json.get("messageID"))


async def _audit_id(arena: Arena, hub: str) -> str:
    path = f"/v1/admin/hubs/{hub}/channels/a/metadata"
    await ask(arena, "PUT", path, arena.tokens[hub], {"metadata": {"a": 1}})
    answer = await ask(arena, "GET", f"/v1/admin/hubs/{hub}/audit?limit=1", arena.tokens[hub])
    items = answer.json["items"]
    return str(items[0].get("id", "")) if items else ""
