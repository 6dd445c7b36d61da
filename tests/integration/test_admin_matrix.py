"""Who may call what: a token of each level against each route of the table.

The table is the one that the server serves, so a new route cannot escape.
"""

from __future__ import annotations

from typing import Any

import pytest

from harness.admin import Caller
from harness.admin_routes import BODIES, address
from harness.running_hub import RunningHub, StartHub, open_hub
from hubbub.domain.permissions import Level
from hubbub.domain.rules import Rules
from hubbub.gateways.admin.table import ROUTES
from hubbub.gateways.routes import Access, AnyRoute

CALLERS = (
    "nobody",
    "garbage",
    "client",
    "service",
    "service of another hub",
    "admin of this hub",
    "admin of another hub",
    "admin",
    "viewer of this hub",
    "viewer of another hub",
    "viewer",
)
_VIEWERS = {"viewer of this hub", "viewer"}
_CLOSED_TO_OTHERS = {
    "nobody",
    "garbage",
    "service of another hub",
    "admin of another hub",
    "viewer of another hub",
    *_VIEWERS,
}
ALLOWED = {
    Access.CLIENT: set(CALLERS) - _CLOSED_TO_OTHERS,
    Access.SERVICE: {"service", "admin of this hub", "admin"},
    Access.ADMIN: {"admin of this hub", "admin"},
}


def token_of(hub: RunningHub, caller: str) -> str | None:
    levels = {level.value: level for level in Level}
    if caller == "nobody":
        return None
    if caller == "garbage":
        return "a.b.c"
    level = levels[caller.split()[0]]
    name = "other" if "another" in caller else "*" if caller in ("admin", "viewer") else "acme"
    return hub.token("ann", hub=name, level=level)


def test_every_route_has_a_body_here_if_it_takes_one() -> None:
    assert {route.operation_id for route in ROUTES if route.body is not None} == set(BODIES)


def test_every_route_has_its_own_operation_and_place() -> None:
    assert len({route.operation_id for route in ROUTES}) == len(ROUTES)
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)


ADMINISTRATIVE = [route for route in ROUTES if route.access in ALLOWED]


@pytest.mark.spec("ADMIN-03", "OPS-02", "OPS-03")
@pytest.mark.parametrize("route", ADMINISTRATIVE, ids=lambda route: route.operation_id)
async def test_each_level_reaches_what_it_may_and_no_more(
    start_hub: StartHub, route: AnyRoute
) -> None:
    hub = await start_hub(open_hub(), open_hub("other"))
    expected = ALLOWED[route.access] | (_VIEWERS if route.viewable else set())
    if "hub" not in route.parameters:
        expected -= {"admin of this hub", "viewer of this hub"}  # what concerns all hubs
    if route.operation_id == "createHub":
        expected -= {"service"}  # those of all hubs alone may
    reached = set()
    for caller in CALLERS:
        reply = await Caller(hub, token_of(hub, caller))(
            route.method, address(route), BODIES.get(route.operation_id)
        )
        if reply.status not in (401, 403):
            assert reply.status < 500, reply.text
            reached.add(caller)
        else:
            wanted = (401, "not_authenticated") if caller == "nobody" else None
            assert wanted in (None, (reply.status, reply.code))
            assert reply.status == 401 or caller in ("client", "service", *_VIEWERS)
    assert reached == expected


NOT_FOR_VIEWERS = {
    "getChannelPresence",
    "getCollective",
    "getDeadLetter",
    "getDocument",
    "getPeer",
    "listDeadDeliveries",
    "listDocumentChanges",
    "listDocuments",
    "listNotifications",
    "listPeers",
    "listPushTokensOfUser",
    "queryMessages",
}


@pytest.mark.spec("ADMIN-03")
def test_viewers_read_everything_but_what_people_sent_and_change_nothing() -> None:
    reads = {route.operation_id for route in ADMINISTRATIVE if route.viewable}
    changes = {
        route.operation_id
        for route in ADMINISTRATIVE
        if route.method != "GET" and not route.operation_id.startswith("refresh")
    }
    assert not reads & (changes | NOT_FOR_VIEWERS)
    every = {
        route.operation_id
        for route in ADMINISTRATIVE
        if route.method == "GET" and route.access is not Access.CLIENT
    }
    assert every - reads == NOT_FOR_VIEWERS


@pytest.mark.spec("ADMIN-03")
async def test_no_answer_shows_viewers_the_query_of_an_address(
    start_hub: StartHub,
) -> None:
    rules = Rules(store=True, public=True, client_publish=True)
    hub = await start_hub(open_hub(rules=rules, callback_addresses="loopback"))
    service = Caller(hub, token_of(hub, "service"))
    secret = "http://127.0.0.1:9/in?key=sesame"
    base = "/v1/admin/hubs/acme"
    for method, path, body in (
        ("POST", "/v1/hubs/acme/webhooks", {"channel": "news", "callback": secret}),
        ("PUT", "callbacks/c", {"url": secret}),
        ("PUT", "rpc-routes/r", {"method": "cart.*", "url": secret}),
    ):
        made = await service(method, path if path[0] == "/" else f"{base}/{path}", body)
        assert made.status < 300, (path, made.text)
    viewer = Caller(hub, token_of(hub, "viewer of this hub"))
    seen = 0
    for route in ADMINISTRATIVE:
        if route.method == "GET" and "hub" in route.parameters:
            seen += "key=sesame" in (await service("GET", address(route))).text
            assert "key=sesame" not in (await viewer("GET", address(route))).text, (
                route.operation_id
            )
    assert seen >= 3, "the service sees them"


@pytest.mark.spec("ADMIN-03", "ADMIN-05")
async def test_no_answer_names_documents_or_peers_to_viewers(start_hub: StartHub) -> None:
    """Nor does a refusal tell whether a document exists."""
    rules = Rules(store=True, public=True, client_publish=True)
    hub = await start_hub(open_hub(rules=rules, commands=True))
    service = Caller(hub, token_of(hub, "service"))
    viewer = Caller(hub, token_of(hub, "viewer of this hub"))
    base = "/v1/admin/hubs/acme"
    session = await hub.socket(token=hub.token("ann"))
    await session.subscribe("doc:merger", "news")
    for path, body in (
        ("/v1/hubs/acme/channels/doc:merger/document", {"a": 1}),
        (f"{base}/channels/doc:merger/settings", {"rules": None}),
        (f"{base}/collectives/board", {"members": ["mallory"]}),
        (f"{base}/peers/mallory", {"addresses": []}),
    ):
        made = await service("PUT", path, body)
        assert made.status < 300, (path, made.text)
    session_id = (await service("GET", f"{base}/sessions")).json["items"][0]["sessionID"]
    routes = [each for each in ADMINISTRATIVE if each.method == "GET" and "hub" in each.parameters]
    paths = [address(route).replace("unknown", session_id) for route in routes]
    by_service = [await named_at(service, path) for path in paths]
    assert sum(by_service) >= 5, "a service sees them"
    assert not [path for path in paths if await named_at(viewer, path)]
    for question in ("channels/doc:{}", "channels/doc:{}/settings", "sessions?channel=doc:{}"):
        for name in ("merger", "unknown"):
            asked = await viewer("GET", f"{base}/{question.format(name)}")
            assert (asked.status, asked.code) == (403, "not_permitted"), question


async def named_at(caller: Caller, path: str) -> bool:
    text = (await caller("GET", path)).text
    return "merger" in text or "mallory" in text


@pytest.mark.spec("ADMIN-03", "OPS-02")
@pytest.mark.parametrize(
    "route",
    # Services follow the grants alone, which test_rpc.py and test_streams.py show; webhooks are for
    # callers who are known, as test_webhooks_api.py shows; only services delete documents, as
    # test_documents_http.py shows; test_communication.py shows who sends messages to peers, and
    # test_mercure.py who publishes and reads updates.
    [
        route
        for route in ROUTES
        if route.access is Access.HUB
        and route.tag not in ("Services", "Webhooks", "Communication", "Mercure")
        and route.operation_id != "dropDocument"
    ],
    ids=lambda route: route.operation_id,
)
async def test_the_hubs_own_api_follows_its_rules(start_hub: StartHub, route: AnyRoute) -> None:
    open_to_all = Rules(
        public=True, client_publish=True, allow_anonymous=True, presence=True, store=True
    )
    private = Rules(presence=True, store=True)
    hub = await start_hub(open_hub("acme", open_to_all), open_hub("closed", private))

    async def reached(name: str, caller: str) -> bool:
        token = token_of(hub, caller) if name == "acme" else hub.token("ann", hub="closed")
        if caller == "nobody":
            token = None
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        body = BODIES.get(route.operation_id)
        url = address(route, hub=name)
        if route.tag == "Topics":  # a subscription of the caller's own, and something to get
            topic = f"/v1/hubs/{name}/topics/news"
            await hub.http.put(f"{topic}/subscriptions/default", headers=headers)
            await hub.http.post(f"{topic}/messages", data="x", headers=headers)
        if route.operation_id == "readContent":
            stored = f"/v1/hubs/{name}/channels/news/messages?store=true"
            await hub.http.post(stored, data="x", headers=headers)
        if route.tag == "Documents":
            await hub.http.put(url.removesuffix("/changes"), data="{}", headers=headers)
            headers["Content-Type"] = route.content_type
        async with hub.http.request(route.method, url, json=body, headers=headers) as reply:
            if route.operation_id == "publishBatch" and reply.status == 200:
                return bool((await reply.json())["published"][0]["success"])
            if route.operation_id in ("listSubscriptions", "getFromEach") and reply.status == 200:
                ((_, found),) = (await reply.json()).items()
                return bool(found)
            return reply.status == 200

    for caller in ("nobody", "client", "service", "admin"):
        assert await reached("acme", caller), caller
    assert not await reached("acme", "garbage")
    for caller in ("nobody", "client"):
        assert not await reached("closed", caller), caller


@pytest.mark.spec("OPS-02")
@pytest.mark.parametrize(
    "route",
    [route for route in ROUTES if route.access is Access.ANYONE],
    ids=lambda route: route.operation_id,
)
async def test_what_is_open_to_anyone_gives_nothing_away(hub: RunningHub, route: AnyRoute) -> None:
    credentials = "/v1/hubs/{hub}/token"
    assert route.path in (
        credentials, "/v1/admin/login", "/openapi.json", "/healthz", "/readyz"
    )  # fmt: skip
    body = BODIES.get(route.operation_id)
    async with hub.http.request(route.method, address(route), json=body) as reply:
        # Without admin.url there is no login, and without an auth provider no credentials are good.
        assert reply.status in ((401,) if route.path == credentials else (200, 404))


@pytest.mark.spec("ADMIN-03")
async def test_expired_and_foreign_tokens_are_refused_everywhere(start_server: StartHub) -> None:
    hub = await start_server(open_hub(), open_hub("other"))
    expired = hub.token("ann", hub="*", level=Level.ADMIN, ttl=0.5)
    hub.server.tokens._clock = _Later(hub.server.tokens._clock)
    for route in ADMINISTRATIVE:
        body = BODIES.get(route.operation_id)
        reply = await Caller(hub, expired)(route.method, address(route), body)
        assert (reply.status, reply.code) == (401, "invalid_token"), route.operation_id


class _Later:
    """A clock that is ahead."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock

    def now(self) -> float:
        return float(self._clock.now()) + 10

    def monotonic(self) -> float:
        return float(self._clock.monotonic())


async def test_tokens_in_addresses_do_not_count_for_administration(hub: RunningHub) -> None:
    token = hub.token("root", hub="*", level=Level.ADMIN)
    reply = await Caller(hub, None)("GET", f"/v1/admin/hubs?token={token}")
    assert reply.status == 401
