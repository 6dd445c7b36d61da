"""Questions that are more work than they look: filters, analytics, long answers."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

from attack.arena import BLUE, RED, Arena, Findings, attack
from attack.clients import GONE, Line, Socket, ask, drop, for_seconds

_LOG = f"/v1/hubs/{RED}/channels/secret%3Aquestions"
_PATH = "payload" + ".a" * 7000


def costly_filters(count: int) -> list[dict[str, object]]:
    """Conditions with as many comparisons as are allowed together, none of which ever holds."""
    comparisons = 495 // count
    return [
        {"nor": [{"eq": {f"payload.n{first}{n}": -1}} for n in range(comparisons)]}
        for first in range(count)
    ]


def command(cmd: str, **params: object) -> dict[str, object]:
    """An hCommand of ann."""
    return {"reqid": "1", "sender": "ann@red", "entity": "hnode@red", "cmd": cmd, "params": params}


@attack(
    "filters", "a filter path of 7,000 names; 60 sessions with the most costly filters there may be"
)
async def filter_bombs(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    bomb = quote(f"{_PATH} = 1")
    refused = await ask(arena, "GET", f"{_LOG}/messages?where={bomb}", arena.tokens[RED])
    found.answers[refused.label] += 1
    found.expect(refused.code == "invalid_filter", f"a path of 7,000 names: {refused.label}")
    watchers: list[Socket] = []

    async def watch(number: int) -> None:
        socket = await Socket.connect(arena)
        watchers.append(socket)
        socket.say("SetFilter", reqID=1, name="path", condition={"eq": {_PATH: number}})
        answer = await socket.find("SetFilter", "Error")
        found.expect(answer["event"] == "Error", "a session has a filter with 7,000 names")
        for part, condition in enumerate(costly_filters(3)):
            condition["gt"] = {"payload.n": -number}
            socket.say("SetFilter", reqID=2, name=f"f{part}", condition=condition)
            answer = await socket.find("SetFilter", "Error")
            found.expect(answer["event"] == "SetFilter", f"the control is refused: {answer}")
        socket.say("Subscribe", reqID=3, channels=[{"channel": "bombed"}])
        await socket.codes(found.answers)

    async def publish() -> None:
        items = [{"channel": "bombed", "payload": {"json": {"n": n}}} for n in range(10)]
        async with await Socket.connect(arena) as socket:
            reading = asyncio.ensure_future(socket.codes(found.answers))
            while not reading.done():
                socket.say("Publish", publishes=items)
                await asyncio.sleep(0.1)

    async def read() -> None:
        where = "+or+".join(["payload.a%3D1"] * 500)
        async with await Line.open(arena) as line:
            while True:
                path = f"{_LOG}/messages?where={where}"
                found.answers[(await line.ask("GET", path, arena.tokens["ann"])).label] += 1

    await _fill(arena)
    jobs = [watch(number) for number in range(arena.many(60))]
    await for_seconds(seconds, *jobs, publish(), *(read() for _ in range(6)))
    drop(watchers)
    return found


@attack("shares", "40 callers ask about analytics all the time; another tenant asks once")
async def analytics_storm(arena: Arena, seconds: float) -> Findings:
    found = Findings()

    async def storm() -> None:
        async with await Line.open(arena) as line:
            while True:
                path = f"/v1/admin/hubs/{RED}/analytics/traffic"
                answer = await line.ask("GET", path, arena.tokens[RED])
                found.answers[answer.label] += 1
                if answer.status != 200:
                    await asyncio.sleep(0.05)

    async def neighbour() -> None:
        await asyncio.sleep(seconds / 2)
        path = f"/v1/admin/hubs/{BLUE}/analytics/traffic"
        answer = await ask(arena, "GET", path, arena.tokens[BLUE])
        found.expect(answer.code != "overloaded", f"another tenant's question: {answer.label}")

    asking = asyncio.ensure_future(neighbour())
    await for_seconds(seconds, *(storm() for _ in range(40)))
    try:
        await asking
    except GONE as error:
        found.expect(False, f"another tenant's question: {error!r}")
    found.expect(found.answers["503 overloaded"], "no question of the hostile tenant was refused")
    return found


@attack("answers", "six callers of one client ask for threads, last messages and filtered history")
async def long_answers(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    await _fill(arena)
    where = "+or+".join(["payload.a%3D1"] * 500)
    last = command("hGetLastMessages", chid="#secret:questions@red", nbLastMsg=1000)
    people = {"owner": "ann@red", "participants": ["ann@red"], "active": True}
    made = command("hCreateUpdateChannel", chid="#secret:questions@red", **people)
    await ask(arena, "POST", f"/v1/hubs/{RED}/commands", arena.tokens["ann"], made)
    answer = await ask(arena, "POST", f"/v1/hubs/{RED}/commands", arena.tokens["ann"], last)
    found.expect(answer.json.get("status") == 0, f"the control is refused: {answer.body[:200]!r}")
    requests: list[tuple[str, str, object]] = [
        ("GET", f"{_LOG}/threads?limit=1000", b""),
        ("POST", f"/v1/hubs/{RED}/commands", last),
        ("GET", f"{_LOG}/messages?limit=100&where={where}", b""),
    ]

    async def call(method: str, path: str, body: object) -> None:
        async with await Line.open(arena) as line:
            while True:
                answer = await line.ask(method, path, arena.tokens["ann"], body)
                found.answers[answer.label] += 1

    await for_seconds(seconds, *(call(*each) for each in requests * 2))
    found.expect(found.answers["200"], "no question was answered")
    return found


@attack("searches", "16 searches at once for words that all messages hold and a phrase none does")
async def hostile_searches(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    path, hidden = f"/v1/hubs/{RED}/search", "secret:searched"
    words = " ".join(f"w{n}" for n in range(8))
    backwards = " ".join(f"w{n}" for n in reversed(range(8)))
    for first in range(0, arena.many(2000), 100):
        items = [
            {"channel": hidden, "extra": {"store": True}, "payload": {"text": f"{words} {n}"}}
            for n in range(first, first + 100)
        ]
        await ask(
            arena, "POST", f"/v1/hubs/{RED}/messages", arena.tokens[RED], {"publishes": items}
        )
    control = await ask(arena, "GET", f"{path}?q={quote(words)}", arena.tokens["ann"])
    found.expect(len(control.json.get("hits", ())) == 20, f"the control: {control.body[:200]!r}")
    for query in (f'"{backwards}"', words, '"w0" OR *', "' | !", "NEAR(w0 w1)", "w0 " * 17, '"'):
        told = await ask(arena, "GET", f"{path}?q={quote(query)}&channel=x*")
        found.expect(not told.json.get("hits"), f"a stranger found something by {query!r}")
        rival = await ask(
            arena, "GET", f"/v1/hubs/{BLUE}/search?q={quote(query)}", arena.tokens[BLUE]
        )
        places = [hit["message"]["channel"] for hit in rival.json.get("hits", ())]
        found.expect(hidden not in places, f"another tenant found {query!r}")
    queries = [words, f'"{backwards}"', words + " " + backwards, "w1", f'"{words}"', "2000"]
    asked = [f"q={quote(query)}&order={order}" for query in queries for order in ("rank", "time")]

    async def search(query: str) -> None:
        async with await Line.open(arena) as line:
            while True:
                answer = await line.ask("GET", f"{path}?{query}&limit=100", arena.tokens["ann"])
                found.answers[answer.label] += 1
                if "cursor" in answer.json:
                    cursor = answer.json["cursor"]
                    again = f"{path}?{query}&limit=100&cursor={cursor}"
                    found.answers[(await line.ask("GET", again, arena.tokens["ann"])).label] += 1

    await for_seconds(seconds, *(search(query) for query in (*asked, *asked[:4])))
    found.expect(found.answers["200"], "no search was answered")
    return found


async def _fill(arena: Arena) -> None:
    """A thousand stored messages, each a conversation of its own."""
    for first in range(0, arena.many(1000), 100):
        items = [
            {
                "channel": "secret:questions",
                "conversationID": f"c{first + n}",
                "payload": {"json": {"n": n, "text": "x" * 200}},
            }
            for n in range(100)
        ]
        await ask(
            arena, "POST", f"/v1/hubs/{RED}/messages", arena.tokens[RED], {"publishes": items}
        )
