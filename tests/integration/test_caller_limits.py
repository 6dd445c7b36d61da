"""Guessing and flooding are stopped at every door, by address and by identity, and say for how
long; who brings a token that was right before is not concerned."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import hubbub
from harness.clock import FakeClock
from harness.running_hub import NO_LIMITS, RunningHub, StartHub, open_hub
from harness.zeromq import zeromq_clients
from hubbub.domain.permissions import Level
from hubbub.domain.rules import Rules

pytestmark = pytest.mark.spec("SEC-01")

GUESSES = 5
STORED = Rules(public=True, client_publish=True, allow_anonymous=True, store=True)
STRICT = {"limits__failedCredentialsPerMinute": GUESSES, "zeromq__endpoint": "tcp://127.0.0.1:*"}
_numbers = itertools.count()

Outcome = tuple[str, float]
"""An error's code, and the seconds to wait that came with it."""


def wrong_token() -> str:
    return f"eyJhbGciOiJIUzI1NiJ9.e30.{next(_numbers):x}"


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def over_http(
    hub: RunningHub, method: str, path: str, headers: dict[str, str] | None = None, **more: Any
) -> Outcome:
    given = {**bearer(wrong_token()), **(headers or {})}
    async with hub.http.request(method, path, headers=given, **more) as answer:
        body = await answer.json()
        limited = answer.status == 429
        assert ("Retry-After" in answer.headers) is limited
        if limited:
            assert int(answer.headers["Retry-After"]) >= body["error"]["retryAfter"] > 0
        return body["error"]["code"], float(answer.headers.get("Retry-After", 0))


def http(method: str, path: str, **more: Any) -> Callable[[RunningHub], Awaitable[Outcome]]:
    return lambda hub: over_http(hub, method, path, **more)


async def websocket_handshake(hub: RunningHub) -> Outcome:
    socket = await hub.raw_socket(additional_headers=bearer(wrong_token()))
    said = await socket.expect("Disconnect")
    assert (await socket.closed())[0] in (4411, 4429)
    return said["code"], said.get("retryAfter", 0)


async def websocket_auth(hub: RunningHub) -> Outcome:
    socket = await hub.socket()
    await socket.send("Auth", reqID=1, token=wrong_token())
    error = (await socket.expect("Auth"))["error"]
    return error["code"], error.get("retryAfter", 0)


async def restore_key(hub: RunningHub) -> Outcome:
    socket = await hub.socket()
    await socket.send("SessionRestore", reqID=1, restoreKey=wrong_token())
    error = (await socket.expect("Error"))["error"]
    return error["code"], error.get("retryAfter", 0)


async def over_zeromq(hub: RunningHub) -> Outcome:
    async with zeromq_clients(hub) as clients:
        credential = f"acme {wrong_token()}"
        frames = await clients.make().ask("put", credential, "a", "{}")
        assert frames[0] == b"ERROR"
        seconds = int(frames[3]) / 1000 if len(frames) > 3 else 0.0
        return frames[1].decode(), seconds


def topic_key(path: str) -> Callable[[RunningHub], Awaitable[Outcome]]:
    async def guess(hub: RunningHub) -> Outcome:
        headers = {"Accept": "application/json", "Hubbub-Topic-Key": wrong_token()}
        token = hub.token("ann")
        path_in_hub = f"/v1/hubs/acme/{path}"
        return await over_http(hub, "POST", path_in_hub, {**headers, **bearer(token)}, data=b"1")

    return guess


DOORS: dict[str, Callable[[RunningHub], Awaitable[Outcome]]] = {
    "publish": http("POST", "/v1/hubs/acme/channels/a/messages", data=b"1"),
    "batch": http("POST", "/v1/hubs/acme/messages", json={"publishes": []}),
    "history": http("GET", "/v1/hubs/acme/channels/a/messages"),
    "presence": http("GET", "/v1/hubs/acme/channels/a/presence"),
    "topics": http("POST", "/v1/hubs/acme/topics/a/messages", data=b"1"),
    "subscriptions": http("GET", "/v1/hubs/acme/subscriptions"),
    "services": http("POST", "/v1/hubs/acme/rpc/a", data=b"1"),
    "streams": http("POST", "/v1/hubs/acme/streams/a/events", data=b"1"),
    "sse": http("GET", "/v1/hubs/acme/events?channel=a"),
    "webhooks": http("GET", "/v1/hubs/acme/webhooks"),
    "websub": http("POST", "/v1/hubs/acme/websub", headers={"Accept": "application/json"}),
    "light": http(
        "POST", "/v1/hubs/acme/hub/publish/a", headers={"Accept": "application/json"}, data=b"1"
    ),
    "admin": http("GET", "/v1/admin/hubs"),
    "credentials": http("POST", "/v1/hubs/acme/token", data=b"1"),
    "token exchange": http("POST", "/v1/hubs/acme/token/refresh"),
    "websocket handshake": websocket_handshake,
    "websocket auth": websocket_auth,
    "restore key": restore_key,
    "zeromq": over_zeromq,
    "topic key, light": topic_key("hub/publish/keyed"),
    "topic key, publish": topic_key("channels/keyed/messages"),
    "topic key, put": topic_key("topics/keyed/messages"),
}


@pytest.mark.parametrize("door", DOORS)
async def test_guessing_is_stopped_after_a_few_at_every_door(
    start_server: StartHub, door: str
) -> None:
    clock = FakeClock()
    hub = await start_server(open_hub(rules=STORED), clock=clock, **STRICT)
    if door.startswith("topic key"):
        registered = hub.http.put(
            "/v1/hubs/acme/hub/register?key=true",
            headers=bearer(hub.token("robot", level=Level.SERVICE)),
            data=b"keyed",
        )
        async with registered as answer:
            assert answer.status == 201, await answer.text()
    outcomes = [await DOORS[door](hub) for _ in range(GUESSES + 3)]
    assert all(code != "rate_limited" for code, _ in outcomes[:GUESSES]), outcomes
    assert [code for code, _ in outcomes[GUESSES:]] == ["rate_limited"] * 3
    seconds = outcomes[-1][1]
    assert 60 / GUESSES - 1 <= seconds <= 60 / GUESSES
    clock.advance(seconds)
    after = [(await DOORS[door](hub))[0] for _ in range(2)]
    assert after[0] != "rate_limited"
    assert after[1] == "rate_limited"


async def status(hub: RunningHub, token: str | None = None, *, of: str = "acme") -> int:
    path = f"/v1/hubs/{of}/channels/a/messages"
    headers = bearer(token) if token is not None else {}
    async with hub.http.post(path, headers=headers, data=b"1") as answer:
        return answer.status


async def test_a_token_that_was_right_before_works_on_beside_someone_who_guesses(
    start_server: StartHub,
) -> None:
    hub = await start_server(open_hub(), open_hub("other"), **STRICT)
    known, new = hub.token("ann"), hub.token("bob")
    assert await status(hub, known) == 200
    assert [await status(hub, wrong_token()) for _ in range(GUESSES + 1)] == [401] * GUESSES + [429]
    assert await status(hub, known) == 200
    assert await status(hub) == 200
    assert await status(hub, new) == 429
    assert await status(hub, hub.token("bob", "other"), of="other") == 200


async def test_tokens_that_are_genuine_but_have_expired_are_no_guesses(
    start_server: StartHub,
) -> None:
    clock = FakeClock()
    hub = await start_server(open_hub(), clock=clock, **STRICT)
    expired = [hub.token(f"user{n}", ttl=1) for n in range(3 * GUESSES)]
    clock.advance(2)
    assert {await status(hub, token) for token in expired} == {401}
    assert await status(hub, hub.token("ann")) == 200


async def test_an_address_guesses_at_all_hubs_together_three_times_as_much(
    start_server: StartHub,
) -> None:
    names = [f"hub{n}" for n in range(4)]
    hub = await start_server(*(open_hub(name) for name in names), **STRICT)
    statuses = [await status(hub, wrong_token(), of=name) for name in names for _ in range(GUESSES)]
    assert statuses == [401] * 3 * GUESSES + [429] * GUESSES


async def test_an_anonymous_publisher_has_the_pace_of_a_session(start_server: StartHub) -> None:
    clock = FakeClock()
    hub = await start_server(open_hub(), clock=clock, limits__anonymousPerSecond=5)
    assert [await status(hub) for _ in range(12)] == [200] * 10 + [429] * 2
    path = "/v1/hubs/acme/messages"
    batch = {"publishes": [{"channel": "a", "payload": {"json": 1}}] * 5}
    async with hub.http.post(path, json=batch) as answer:
        assert answer.status == 429
    async with hub.http.post("/v1/hubs/acme/token", data=b"{}") as answer:
        assert answer.status == 429  # each asks the hub's auth provider
    assert await status(hub, hub.token("ann")) == 200
    clock.advance(1)
    assert [await status(hub) for _ in range(6)] == [200] * 5 + [429]
    clock.advance(1)
    for expected in (200, 429):
        async with hub.http.post(path, json=batch) as answer:
            assert answer.status == expected


async def test_identities_have_a_pace_each_and_services_one_of_their_own(
    start_server: StartHub,
) -> None:
    hub = await start_server(
        open_hub(), clock=FakeClock(), limits__clientPerSecond=3, limits__servicePerSecond=6
    )
    for token, most in (
        (hub.token("ann"), 6),
        (hub.token("bob"), 6),
        (hub.token(None, level=Level.SERVICE), 12),
    ):
        assert [await status(hub, token) for _ in range(most + 1)] == [200] * most + [429]


async def test_a_caller_does_not_multiply_its_pace_by_many_sessions(start_server: StartHub) -> None:
    hub = await start_server(
        open_hub(),
        clock=FakeClock(),
        limits__anonymousPerSecond=1,
        session__messagesPerSecond=9,
        session__messageBurst=9,
    )
    results = []
    for _ in range(4):
        socket = await hub.socket()
        results += [await socket.publish("a", {"json": 1}) for _ in range(9)]
    assert [each["success"] for each in results] == [True] * 20 + [False] * 16
    assert results[-1]["error"]["code"] == "rate_limited"
    assert results[-1]["error"]["retryAfter"] == pytest.approx(0.1)


async def test_an_address_opens_so_many_connections_a_second(start_server: StartHub) -> None:
    hub = await start_server(open_hub(), clock=FakeClock(), limits__connectionsPerSecond=1)
    for _ in range(9):
        await hub.socket()
    path = "/v1/hubs/acme/events?channel=a"
    async with hub.http.get(path) as answer:
        assert answer.status == 200
    async with hub.http.get(path) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (429, "1")


async def test_addresses_are_those_that_trusted_proxies_tell_and_ipv6_counts_by_network(
    start_server: StartHub,
) -> None:
    hub = await start_server(
        open_hub(),
        clock=FakeClock(),
        limits__anonymousPerSecond=1,
        listener__trustedProxies=["127.0.0.1"],
    )

    async def ask(address: str) -> int:
        headers = {"X-Forwarded-For": address}
        path = "/v1/hubs/acme/channels/a/messages"
        async with hub.http.post(path, headers=headers, data=b"1") as answer:
            return answer.status

    addresses = ("192.0.2.1", "::ffff:192.0.2.1", "192.0.2.1", "192.0.2.2")
    assert [await ask(each) for each in addresses] == [200, 200, 429, 200]
    addresses = ("2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:0:9::3", "2001:db8:0:1::1")
    assert [await ask(each) for each in addresses] == [200, 200, 429, 200]


async def test_what_is_shipped_stops_a_burst_and_zero_switches_a_limit_off(
    start_server: StartHub, tmp_path: Path
) -> None:
    shipped = await start_server(
        open_hub(rules=Rules(public=True)),
        limits__failedCredentialsPerMinute=30,
        storage__path=str(tmp_path / "shipped"),
    )
    statuses = [await status(shipped, wrong_token()) for _ in range(100)]
    assert statuses[:30] == [401] * 30
    assert statuses.count(401) < 35
    off = await start_server(open_hub(rules=Rules(public=True)))
    assert set(NO_LIMITS.values()) == {0}
    assert {await status(off, wrong_token()) for _ in range(100)} == {401}


def test_no_door_verifies_tokens_past_the_count_of_failures() -> None:
    """`Tokens.verify` counts nothing: doors ask `Credentials`."""
    gateways = Path(hubbub.__file__).parent / "gateways"
    past = {
        f"{path.name}:{node.lineno}"
        for path in gateways.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr in ("verify", "verify_fetching", "identify")
        and ast.unparse(node.value).endswith("tokens")
        and path.name != "listener.py"  # looks only whether keys must be fetched; refuses nobody
    }
    assert past == set()
