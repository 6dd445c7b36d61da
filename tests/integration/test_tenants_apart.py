"""What a tenant or a stranger can learn about the other tenants of a server: nothing."""

from __future__ import annotations

import itertools
import json
from typing import Any

import aiohttp
import pytest

from harness.admin import Caller
from harness.clock import FakeClock
from harness.running_hub import OPEN, RunningHub, StartHub, open_hub
from harness.zeromq import zeromq_clients
from hubbub.domain.permissions import Level
from hubbub.domain.rules import HubConfiguration, HubSettings

pytestmark = pytest.mark.spec("SEC-02")

BLUE, NOBODY = "blue", "none"
"""A tenant without anonymous access, and a hub that does not exist: names of one length."""
FORGED = "eyJhbGciOiJIUzI1NiIsInR5cCI6InNlc3Npb24ifQ.eyJodWIiOiJibHVlIn0.AAAA"
FOREIGN = "eyJhbGciOiJFZERTQSJ9.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUifQ.AAAA"
PATHS = [
    ("POST", "/v1/hubs/{}/channels/a/messages"),
    ("GET", "/v1/hubs/{}/channels/a/messages"),
    ("GET", "/v1/hubs/{}/channels/a/presence"),
    ("PUT", "/v1/hubs/{}/channels/a/presence"),
    ("POST", "/v1/hubs/{}/messages"),
    ("GET", "/v1/hubs/{}/events?channel=a"),
    ("POST", "/v1/hubs/{}/topics/a/messages"),
    ("GET", "/v1/hubs/{}/subscriptions"),
    ("POST", "/v1/hubs/{}/rpc/cart.add"),
    ("POST", "/v1/hubs/{}/streams/clicks"),
    ("GET", "/v1/hubs/{}/webhooks"),
    ("POST", "/v1/hubs/{}/websub"),
    ("PUT", "/v1/hubs/{}/hub/register"),
    ("POST", "/v1/hubs/{}/token/refresh"),
    ("GET", "/v1/hubs/{}/nonsense"),
    ("GET", "/v1/admin/hubs/{}"),
    ("GET", "/v1/admin/hubs/{}/settings"),
    ("GET", "/v1/admin/hubs/{}/audit"),
    ("PUT", "/v1/admin/hubs/{}/rules/x"),
    ("POST", "/v1/admin/hubs/{}/tokens"),
]


@pytest.fixture
async def hub(start_server: StartHub) -> RunningHub:
    return await start_server(
        open_hub("red"),
        HubConfiguration(
            BLUE, HubSettings(user_channel=True, default_public=True, session_restore=False)
        ),
        zeromq__endpoint="tcp://127.0.0.1:*",
        session__authenticateTimeout=0.5,
    )


async def answer_of(
    hub: RunningHub, method: str, path: str, name: str, token: str | None
) -> tuple[int, str, dict[str, str]]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with hub.http.request(method, path.format(name), data=b"{}", headers=headers) as answer:
        text = (await answer.text()).replace(name, "{}")
        return answer.status, text, _comparable(answer)


def _comparable(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name != "Date"}


@pytest.mark.parametrize(("method", "path"), PATHS)
async def test_over_http_a_hub_that_does_not_exist_is_like_one_that_wants_a_token(
    hub: RunningHub, method: str, path: str
) -> None:
    for token in (None, FORGED, FOREIGN, hub.token(hub="red"), "junk"):
        there = await answer_of(hub, method, path, BLUE, token)
        absent = await answer_of(hub, method, path, NOBODY, token)
        assert there == absent, token
        assert there[0] in (401, 404, 405), there


async def conversation(hub: RunningHub, name: str, token: str | None, auth: Any) -> list[Any]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    socket = await hub.raw_socket(name, additional_headers=headers)
    if auth is not None:
        await socket.send("Subscribe", reqID=1, channels=[{"channel": "a"}])
        await socket.send("SessionRestore", restoreKey="guessed")
        await socket.send("Auth", reqID=2, **auth)
    code, reason = await socket.closed()
    for said in socket.backlog:
        said["payload"].pop("sessionID", None)
    return [code, *json.loads(json.dumps([reason, socket.backlog]).replace(name, "{}"))]


async def test_over_websocket_a_hub_that_does_not_exist_is_like_one_that_wants_a_token(
    hub: RunningHub,
) -> None:
    for token in (FORGED, FOREIGN, hub.token(hub="red"), "junk"):
        there = await conversation(hub, BLUE, token, None)
        assert there == await conversation(hub, NOBODY, token, None)
        assert there[0] == 4411
    for auth in ({"token": FORGED}, {"token": hub.token(hub="red")}, {"credentials": {"a": 1}}):
        there = await conversation(hub, BLUE, None, auth)
        assert there == await conversation(hub, NOBODY, None, auth)
        assert [said["event"] for said in there[2]][:1] == ["SessionInfo"]
    assert NOBODY not in hub.server.node.hubs
    assert NOBODY not in hub.server.node.counters


async def test_over_zeromq_a_hub_that_does_not_exist_is_like_one_that_wants_a_token(
    hub: RunningHub,
) -> None:
    async with zeromq_clients(hub) as clients:
        client = clients.make()
        for credential in ("{}", f"{{}} {FORGED}", f"{{}} {hub.token(hub='red')}"):
            answers = [
                [part.replace(name, "{}") for part in await client.refused("get", text, "t")]
                for name in (BLUE, NOBODY)
                for text in [credential.format(name)]
            ]
            assert answers[0] == answers[1]


async def test_who_has_a_token_for_a_hub_is_told_that_it_does_not_exist(hub: RunningHub) -> None:
    operator = hub.token(None, "*", Level.ADMIN)
    for token in (operator, hub.token(hub=NOBODY)):
        answer = await answer_of(hub, "GET", "/v1/hubs/{}/channels/a/messages", NOBODY, token)
        assert answer[0] == 404
        socket = await hub.raw_socket(NOBODY)
        await socket.send("Auth", reqID=1, token=token)
        assert (await socket.find("Auth"))["error"]["code"] == "hub_not_found"
        assert (await socket.closed())[0] == 4404


async def test_ids_of_messages_do_not_count_the_messages_of_others(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub("red", rules=OPEN), open_hub(BLUE, rules=OPEN))
    red, blue = await hub.socket("red"), await hub.socket(BLUE)
    first = (await red.publish("a", {"json": 1}))["msgID"]
    others = [(await blue.publish("a", {"json": 1}))["msgID"] for _ in range(20)]
    second = (await red.publish("a", {"json": 1}))["msgID"]
    assert int(second, 16) - int(first, 16) == 1
    assert others[0][:10] != first[:10]


async def test_ids_of_the_audit_log_do_not_count_the_changes_of_others(
    start_server: StartHub,
) -> None:
    clock = FakeClock()
    hub = await start_server(open_hub("red"), open_hub(BLUE), clock=clock)
    numbers = itertools.count()

    async def change(name: str) -> int:
        call = Caller(hub, hub.token(hub=name, level=Level.SERVICE))
        path = f"/v1/admin/hubs/{name}"
        rules = f"{path}/rules/{next(numbers)}"
        assert (await call("PUT", rules, {"public": True})).status in (200, 201)
        return int((await call("GET", f"{path}/audit?limit=1")).json["items"][0]["id"])

    first, *others = await change("red"), *[await change(BLUE) for _ in range(20)]
    clock.advance(10)
    second = await change("red")
    assert abs(second - first - (10_000 << 11)) < 1 << 11, "a time and random bits"
    assert others == sorted(set(others))
    assert second < 2**53


async def test_metrics_are_for_operators_only(start_server: StartHub) -> None:
    scrape = "a-token-that-opens-the-metrics-and-nothing-else"
    hub = await start_server(open_hub("red"), open_hub(BLUE), admin__metricsToken=scrape)
    await hub.socket(BLUE)
    operator = hub.token(None, "*", Level.ADMIN)
    for token in (scrape, operator):
        status, text, _ = await answer_of(hub, "GET", "/metrics", NOBODY, token)
        assert status == 200
        assert 'hubbub_sessions{hub="blue"} 1.0' in text
    tenants = [hub.token(hub="red", level=level) for level in Level]
    for refused in (None, FORGED, "junk", scrape[:-1], *tenants):
        async with hub.http.get(
            "/metrics", headers={"Authorization": f"Bearer {refused}"} if refused else {}
        ) as answer:
            assert answer.status == 401
            assert BLUE not in await answer.text()
    status, _, _ = await answer_of(hub, "GET", "/v1/admin/hubs", NOBODY, scrape)
    assert status == 401


async def test_guesses_of_the_metrics_token_are_limited(start_server: StartHub) -> None:
    hub = await start_server(admin__metricsToken="a" * 32, limits__failedCredentialsPerMinute=3)
    statuses = [(await answer_of(hub, "GET", "/metrics", NOBODY, f"{n}"))[0] for n in range(4)]
    assert statuses == [401, 401, 401, 429]
    assert (await answer_of(hub, "GET", "/metrics", NOBODY, "a" * 32))[0] == 200
