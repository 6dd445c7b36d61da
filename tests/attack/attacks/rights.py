"""Rights that could reach too far: open topics, lost access, service tokens, owners, quotas."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import socket
import time
from typing import Any

import psutil
import zmq
import zmq.asyncio

from attack.arena import RED, Arena, Findings, attack
from attack.attacks.questions import command
from attack.clients import GONE, Answer, Line, Socket, ask

_SECRET = "secret:plans"
_SETTLE_SECONDS = 1.0


async def _settings(arena: Arena, **changes: object) -> Answer:
    """By the operator."""
    path = f"/v1/admin/hubs/{RED}/settings"
    settings = (await ask(arena, "GET", path, arena.tokens["admin"])).json
    return await ask(arena, "PUT", path, arena.tokens["admin"], {**settings, **changes})


async def _form(arena: Arena, form: str, token: str = "", query: str = "") -> Answer:
    return await ask(
        arena,
        "POST",
        f"/v1/hubs/{RED}/websub{query}",
        token,
        form.encode(),
        Host=f"127.0.0.1:{arena.port}",
        Content_Type="application/x-www-form-urlencoded",
    )


async def _seen(arena: Arena, path: str) -> dict[str, object]:
    async with await Line.open(arena, port=arena.scenery) as line:
        found: dict[str, object] = json.loads((await line.ask("GET", f"/seen?path={path}")).body)
        return found


@attack("10", "anonymous subscriptions and pings to private channels of a hub with open topics")
async def open_topics(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    await _settings(arena, openTopics=True)
    path = f"/v1/hubs/{RED}/channels/secret%3Aplans/messages"
    made = await ask(arena, "POST", path, arena.tokens[RED], b"first")
    found.expect(made.status == 200, f"the owner's publish: {made.label}")
    own = f"http://127.0.0.1:{arena.port}{path}"
    tries = {
        "WebSub subscription": _form(
            arena, f"hub.mode=subscribe&hub.topic={own}&hub.callback={arena.url('/ok/spy')}"
        ),
        "Light subscription": ask(
            arena,
            "PUT",
            f"/v1/hubs/{RED}/hub/subscribe",
            "",
            json.dumps(
                {"address": "127.0.0.1", "port": arena.scenery, "path": "/ok/spy", "topic": _SECRET}
            ).encode(),
        ),
        "Light publish": ask(arena, "POST", f"/v1/hubs/{RED}/hub/publish/{_SECRET}", "", b"forged"),
        "fat ping": ask(
            arena,
            "POST",
            f"/v1/hubs/{RED}/websub?hub.mode=publish&hub.topic={own}",
            "",
            b"forged",
            Host=f"127.0.0.1:{arena.port}",
        ),
        "plain webhook": ask(
            arena,
            "POST",
            f"/v1/hubs/{RED}/webhooks",
            "",
            {"channel": _SECRET, "callback": arena.url("/ok/spy")},
        ),
    }
    for what, job in tries.items():
        answer = await job
        found.answers[answer.label] += 1
        if what != "WebSub subscription":  # which may be denied at the callback
            found.expect(answer.status >= 400, f"{what} was answered {answer.status}")
    await asyncio.sleep(_SETTLE_SECONDS)
    before = (await _seen(arena, "/ok/spy"))["count"]
    await ask(arena, "POST", path, arena.tokens[RED], b"second")
    await asyncio.sleep(_SETTLE_SECONDS)
    after = (await _seen(arena, "/ok/spy"))["count"]
    found.expect(after == before, "a stranger's callback got a message of a private channel")
    history = (await ask(arena, "GET", path, arena.tokens[RED])).body
    found.expect(b"forged" not in history, "a stranger published to a private channel")
    await _settings(arena, openTopics=False)
    return found


@attack("11", "a user whose access is taken away, with every kind of subscription", "zeromq")
async def access_taken_away(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    user = f"eve{time.monotonic_ns()}"
    order = {"userID": user, "channels": [{"channel": "secret:*", "subscribe": True}]}
    made = await ask(arena, "POST", f"/v1/admin/hubs/{RED}/tokens", arena.tokens[RED], order)
    token = made.json["token"]
    channel = "secret:eve"
    path = f"/v1/hubs/{RED}/channels/secret%3Aeve/messages"
    topic = f"/v1/hubs/{RED}/topics/secret%3Aeve/subscriptions/mine"
    await ask(arena, "POST", path, arena.tokens[RED], b"0")
    hook = {"channel": channel, "callback": arena.url("/ok/eve")}
    answer = await ask(arena, "POST", f"/v1/hubs/{RED}/webhooks", token, hook)
    found.expect(answer.status == 201, f"her webhook: {answer.label}")
    answer = await ask(arena, "PUT", topic, token)
    found.expect(answer.status == 200, f"her subscription: {answer.label}")
    own = f"http://127.0.0.1:{arena.port}{path}"
    websub = f"hub.mode=subscribe&hub.topic={own}&hub.callback={arena.url('/ok/eve-websub')}"
    await _form(arena, websub, token)
    await asyncio.sleep(_SETTLE_SECONDS)
    context = zmq.asyncio.Context()
    waiting = context.socket(zmq.REQ)
    waiting.linger = 0
    waiting.connect(f"tcp://127.0.0.1:{arena.zeromq}")
    options = json.dumps({"subscription": "mine", "wait": 20}).encode()
    await waiting.send_multipart([b"get", token.encode(), channel.encode(), options])
    stream = await Line.open(arena)
    stream.send(
        f"GET /v1/hubs/{RED}/events?channel=secret%3Aeve HTTP/1.1\r\nHost: h\r\n"
        f"Authorization: Bearer {token}\r\n\r\n".encode()
    )
    async with asyncio.timeout(5):
        await stream.reader.readuntil(b"Subscribe")
    socket = await Socket.connect(arena, token)
    socket.say("Subscribe", reqID=1, channels=[{"channel": channel}])
    await socket.find("Subscribe")
    get = await Line.open(arena)
    get.send(
        f"POST {topic}/get?wait=20 HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n"
        f"Authorization: Bearer {token}\r\n\r\n".encode()
    )
    await asyncio.sleep(0.2)
    revoked = await ask(
        arena,
        "POST",
        f"/v1/admin/hubs/{RED}/revocations",
        arena.tokens[RED],
        {"kind": "user", "subject": user},
    )
    found.answers[f"revocation {revoked.status}"] += 1
    await asyncio.sleep(_SETTLE_SECONDS)
    seen = {name: (await _seen(arena, name))["count"] for name in ("/ok/eve", "/ok/eve-websub")}
    await ask(arena, "POST", path, arena.tokens[RED], b"a secret after the fact")
    await asyncio.sleep(_SETTLE_SECONDS)
    for name, count in seen.items():
        after = (await _seen(arena, name))["count"]
        found.expect(after == count, f"{name[4:]}: her webhook got a message afterwards")
    for what, line in (("SSE", stream), ("socket", socket), ("waiting get over HTTP", get)):
        found.expect(not await _leaks(line), f"{what} got a message afterwards")
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.5):
            said = await waiting.recv_multipart()
            found.answers[f"zeromq {said[0].decode()}"] += 1
            found.expect(b"after the fact" not in b"".join(said), "ZeroMQ got a message afterwards")
    answer = await ask(arena, "POST", f"{topic}/get", token)
    found.answers[answer.label] += 1
    found.expect(answer.status >= 400, "her durable subscription still answers")
    for line in (stream, socket, get):
        line.drop()
    waiting.close()
    context.term()
    return found


async def _leaks(line: Line) -> bool:
    with contextlib.suppress(*GONE):
        async with asyncio.timeout(0.3):
            said = b""
            while data := await line.reader.read(65536):
                said += data
                if b"after the fact" in said:
                    return True
    return False


@attack("12", "a service token that makes more than it is: issuers, addresses, secrets' targets")
async def service_tokens(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    token = arena.tokens[RED]
    path = f"/v1/admin/hubs/{RED}/settings"
    settings = (await ask(arena, "GET", path, token)).json
    issuer = {
        "issuer": "https://red.example",
        "audience": "hub",
        "jwksUrl": "https://red.example/jwks",
        "level": "service",
    }
    changes: dict[str, dict[str, Any]] = {
        "a trusted issuer of services": {"trustedIssuers": [issuer]},
        "private callback addresses": {"callbackAddresses": "private"},
        "quotas": {"quotas": {**settings.get("quotas", {}), "sessions": 1_000_000}},
    }
    for what, change in changes.items():
        answer = await ask(arena, "PUT", path, token, {**settings, **change})
        found.answers[answer.label] += 1
        found.expect(answer.status in (400, 403, 422), f"{what}: {answer.label}")
    answer = await ask(
        arena, "POST", f"/v1/admin/hubs/{RED}/tokens", token, {"userID": "x", "level": "service"}
    )
    found.answers[answer.label] += 1
    found.expect(answer.status == 403, f"a service token minted by a service: {answer.label}")
    await _private_route(arena, found)
    await _redirected_secret(arena, found)
    return found


async def _private_route(arena: Arena, found: Findings) -> None:
    """To an address of this machine that is not loopback, so that nothing leaves it. Nobody listens
    there: a call that is let through is told so."""
    own = _own_private_address()
    if own is None:
        found.note = "this machine has no private address to try"
        return
    route = {"method": "inside.*", "url": f"http://{own}:9/", "timeoutSeconds": 0.5}
    path = f"/v1/admin/hubs/{RED}/rpc-routes/inside"
    answer = await ask(arena, "PUT", path, arena.tokens[RED], route)
    found.answers[answer.label] += 1
    if answer.status < 300:
        answer = await ask(arena, "POST", f"/v1/hubs/{RED}/rpc/inside.now", arena.tokens[RED], b"1")
        found.answers[answer.label] += 1
        found.expect(
            b"not allowed" in answer.body or answer.code in ("not_permitted", "denied"),
            f"a call went to a private address: {answer.label} {answer.body[:80]!r}",
        )


def _own_private_address() -> str | None:
    addresses = (
        str(entry.address)
        for entries in psutil.net_if_addrs().values()
        for entry in entries
        if entry.family == socket.AF_INET
    )
    for address in addresses:
        if (found := ipaddress.ip_address(address)).is_private and not found.is_loopback:
            return address
    return None


async def _redirected_secret(arena: Arena, found: Findings) -> None:
    """The operator gave a route a secret; the tenant's service moves the route elsewhere."""
    route = {
        "method": "vault.*",
        "url": arena.url("/ok/vault"),
        "headers": {"X-Vault-Key": "operators-secret"},
        "timeoutSeconds": 2,
    }
    path = f"/v1/admin/hubs/{RED}/rpc-routes/vault"
    await ask(arena, "PUT", path, arena.tokens["admin"], route)
    shown = (await ask(arena, "GET", path, arena.tokens[RED])).json
    shown["url"] = f"http://localhost:{arena.scenery}/ok/thief"
    answer = await ask(arena, "PUT", path, arena.tokens[RED], shown)
    found.answers[answer.label] += 1
    await ask(arena, "POST", f"/v1/hubs/{RED}/rpc/vault.open", arena.tokens[RED], b"1")
    headers = json.dumps((await _seen(arena, "/ok/thief"))["headers"])
    found.expect("operators-secret" not in headers, "a route's secret went to another address")


@attack("13", "dead letters of a private channel, where default rules are public")
async def dead_letters(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    rules = {"rules": "closed"}
    path = f"/v1/admin/hubs/{RED}/channels/payroll/settings"
    await ask(arena, "PUT", path, arena.tokens[RED], rules)
    for token in ("", arena.tokens["bob"]):
        for channel in ("payroll", "payroll.dead"):
            where = f"/v1/hubs/{RED}/channels/{channel}/messages"
            read = await ask(arena, "GET", where, token)
            wrote = await ask(arena, "POST", where, token, b"1")
            found.answers[read.label] += 1
            found.answers[wrote.label] += 1
            found.expect(read.status in (401, 403), f"{channel} can be read: {read.label}")
            found.expect(wrote.status in (401, 403), f"{channel} can be written: {wrote.label}")
    return found


@attack("13", "a topic with an owner's key, which is published to at the other doors")
async def topic_keys(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    await _settings(arena, openTopics=True)
    topic = f"log:scores{time.monotonic_ns()}"
    made = await ask(
        arena,
        "PUT",
        f"/v1/hubs/{RED}/hub/register?key=1",
        "",
        topic.encode(),
        Accept="application/json",
    )
    found.answers[made.label] += 1
    found.expect(made.status == 201, f"the topic: {made.label}")
    quoted = topic.replace(":", "%3A")
    for what, path in (
        ("HTTP publish", f"/v1/hubs/{RED}/channels/{quoted}/messages"),
        ("put", f"/v1/hubs/{RED}/topics/{quoted}/messages"),
    ):
        answer = await ask(arena, "POST", path, "", b"forged")
        found.answers[answer.label] += 1
        found.expect(answer.status == 403, f"{what} without the key: {answer.label}")
    async with await Socket.connect(arena) as socket:
        item = {"channel": topic, "payload": {"text": "forged"}, "reqID": 1}
        socket.say("Publish", publishes=[item])
        said = json.dumps(await socket.find("Ack", "Error"))
        found.expect('"success": true' not in said, "a publish over WebSocket without the key")
    await _settings(arena, openTopics=False)
    return found


@attack("14", "another user's webhook, registered again; links made of a forged Host")
async def webhook_takeover(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    hook = {"channel": "secret:hook", "callback": arena.url("/ok/anns"), "secret": "anns-secret"}
    path = f"/v1/hubs/{RED}/webhooks"
    first = await ask(arena, "POST", path, arena.tokens["ann"], hook)
    second = await ask(arena, "POST", path, arena.tokens["bob"], {**hook, "secret": "bobs-secret"})
    found.answers[first.label] += 1
    found.answers[second.label] += 1
    mine = await ask(arena, "GET", f"{path}/{first.json['id']}", arena.tokens["ann"])
    found.expect(mine.status == 200, f"ann's webhook is not hers any more: {mine.label}")
    owner = mine.json.get("owner") if mine.status == 200 else "?"
    found.expect(owner == first.json["owner"], f"ann's webhook belongs to {owner}")
    ids = (first.json.get("id"), second.json.get("id") if second.status < 300 else None)
    found.expect(ids[0] != ids[1], "bob changed ann's webhook")
    answer = await ask(
        arena,
        "GET",
        f"/v1/hubs/{RED}/channels/log%3Aa/messages",
        arena.tokens["ann"],
        Host="evil.example",
    )
    link = answer.headers.get("link", "")
    found.expect("evil.example" not in link, f"Link is made of the request's Host: {link[:60]}")
    return found


@attack("13", "a channel with an owner in a closed namespace: strangers ask whether it exists")
async def owned_channels(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    stamp = time.monotonic_ns()
    owned, absent = f"secret:club{stamp}", f"secret:none{stamp}"
    order = {"userID": "mallory"}
    made = await ask(arena, "POST", f"/v1/admin/hubs/{RED}/tokens", arena.tokens[RED], order)
    strangers = ("", made.json["token"])
    for active in (True, False):
        record = {"owner": "ann@red", "participants": ["ann@red"], "active": active}
        made = await _command(arena, "hCreateUpdateChannel", chid=f"#{owned}@red", **record)
        found.expect(made.json.get("status") == 0, f"control: the channel is {made.body[:200]!r}")
        for token in strangers:
            for method, path in _ASKED:
                there = await _shown(arena, method, path, owned, token)
                nowhere = await _shown(arena, method, path, absent, token)
                found.answers[there[:3]] += 1
                found.expect(there[0] == "4", f"{method} {path} is answered {there}")
                found.expect(there == nowhere, f"{method} {path}: {there}, and {nowhere}")
            there = await _said(arena, owned, token)
            nowhere = await _said(arena, absent, token)
            found.expect("not_permitted" in there, f"over WebSocket: {there}")
            found.expect(there == nowhere, f"over WebSocket: {there}, and {nowhere}")
        own = await _shown(arena, "GET", "channels/{}/messages", owned, arena.tokens["ann"])
        expected = "200" if active else "403"
        found.expect(own[:3] == expected, f"control: its participant is answered {own}")
        found.expect(active or "inactive" in own, f"control: its participant is told {own}")
    return found


_ASKED = (
    ("GET", "channels/{}/messages"),
    ("POST", "channels/{}/messages"),
    ("GET", "channels/{}/presence"),
    ("GET", "channels/{}/threads"),
    ("GET", "channels/{}.dead/messages"),
    ("GET", "events?channel={}"),
    ("POST", "topics/{}/messages"),
    ("PUT", "topics/{}/subscriptions/s"),
    ("POST", "topics/{}/subscriptions/s/get"),
)


async def _command(arena: Arena, name: str, **params: object) -> Answer:
    path = f"/v1/hubs/{RED}/commands"
    return await ask(arena, "POST", path, arena.tokens["ann"], command(name, **params))


async def _shown(arena: Arena, method: str, path: str, channel: str, token: str) -> str:
    """Status and body without the channel's name."""
    quoted = path.format(channel.replace(":", "%3A"))
    answer = await ask(arena, method, f"/v1/hubs/{RED}/{quoted}", token)
    return f"{answer.status} {answer.body.decode()}".replace(channel, "C")


async def _said(arena: Arena, channel: str, token: str) -> str:
    """The answers to a subscription and a publish, without the channel's name."""
    async with await Socket.connect(arena, token) as socket:
        socket.say("Subscribe", reqID=1, channels=[{"channel": channel}])
        followed = await socket.find("Subscribe", "Error")
        item = {"channel": channel, "payload": {"text": "x"}, "reqID": 2}
        socket.say("Publish", publishes=[item])
        published = await socket.find("Ack", "Error")
    return json.dumps([followed, published]).replace(channel, "C")


@attack("15", "all that takes room on disk, until the quota of stored bytes is used up")
async def stored_bytes(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    hub = f"/v1/admin/hubs/{RED}"
    stamp = time.monotonic_ns()
    before = (await ask(arena, "GET", hub, arena.tokens["admin"])).json
    quotas = before["settings"].get("quotas", {})
    room = 40_000
    await _settings(arena, quotas={**quotas, "storedBytes": before["storedBytes"] + room})
    people = {"owner": "ann@red", "participants": ["ann@red"], "active": True}
    for what, query in (("stored", "store=true"), ("retained", "retain=true")):
        codes = []
        for number in range(40):
            path = f"/v1/hubs/{RED}/channels/secret%3A{what}{stamp}-{number}/messages?{query}"
            answer = await ask(arena, "POST", path, arena.tokens[RED], b"x" * 2000)
            codes.append(answer.code)
            found.answers[f"{what} {answer.label}"] += 1
        if what == "stored":
            found.expect(not codes[0], f"control: the first message is refused: {codes[0]}")
        found.expect(codes[-1] == "quota_exceeded", f"{what} messages are not bounded: {codes[-1]}")
    for number in range(200):
        made = await _command(
            arena, "hCreateUpdateChannel", chid=f"#secret:record{stamp}-{number}@red", **people
        )
        if made.json.get("status") != 0:
            break
    found.answers["records refused"] += made.json.get("status") != 0
    found.expect(made.json.get("status") != 0, "records of channels are not bounded")
    after = (await ask(arena, "GET", hub, arena.tokens["admin"])).json
    grown = after["storedBytes"] - before["storedBytes"]
    found.expect(room / 2 < grown < room * 1.25, f"the hub grew by {grown} bytes, not by {room}")
    await _settings(arena, quotas=quotas)
    return found
