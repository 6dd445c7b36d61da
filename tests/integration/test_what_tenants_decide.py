"""What tenants decide is never active in a browser: no door of the hub hands it out as a page, a
script, a style sheet or another document that acts in the hub's origin, where the dashboard is."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from yarl import URL

import hubbub.gateways
from harness.admin_routes import BODIES, PATHS
from harness.dashboard import Browser
from harness.raw import RawConnection
from harness.running_hub import RunningHub, StartHub, open_hub
from harness.service import ServiceServer, running_service, saying
from hubbub.domain.permissions import Identity, Level
from hubbub.domain.rules import RpcRoute, Rules
from hubbub.gateways.admin.table import ROUTES

pytestmark = pytest.mark.spec("OPS-02")

MARKUP = "<script>parent.hacked=1</script>"
BODY = MARKUP.encode()
PASSIVE = re.compile(
    r"(application/(json|octet-stream)|text/(plain|event-stream)|image/png)"
    r'(; *charset="?[\w-]+"?)?',
    re.IGNORECASE,
)
ACTIVE_TYPES = (
    "text/html",
    "TEXT/HTML",
    " text/html;charset=utf-7",
    "text/html; charset=utf-16",
    "text/plain, text/html",
    "text/plain;x=, text/html",
    'text/plain;x=",text/html',
    "text/plain/html",
    "image/png, text/html",
    "application/xhtml+xml",
    "application/xml",
    "text/xml",
    "application/atom+xml",
    "application/mathml+xml",
    "image/svg+xml",
    "Image/SVG+XML; charset=utf-8",
    "text/xsl",
    "text/css",
    "text/javascript",
    "application/javascript; charset=utf-8",
    "application/ecmascript",
    "application/wasm",
    "application/pdf",
    "application/x-shockwave-flash",
    "application/manifest+json",
    "application/vnd.ms-excel",
    "multipart/x-mixed-replace; boundary=x",
    "multipart/related; boundary=x",
    "message/rfc822",
    "text/vtt",
    "text/cache-manifest",
    "text/x-component",
    "*/*",
    "unknown/unknown",
    "nonsense",
    "text",
    "/",
)
_OWN_PAGES = ("/metrics", "/healthz", "/readyz")
OPEN = Rules(
    public=True, client_publish=True, allow_anonymous=True, store=True, store_by_default=True,
    retain=True, presence=True,
)  # fmt: skip


@pytest.fixture
async def service() -> AsyncIterator[ServiceServer]:
    async with running_service() as running:
        yield running


@pytest.fixture
async def hub(start_hub: StartHub, service: ServiceServer) -> RunningHub:
    configuration = msgspec.structs.replace(
        open_hub(rules=OPEN, open_topics=True, allowed_origins=("*",), commands=True),
        rpc_routes={"r": RpcRoute("cart.*", service.url)},
    )
    return await start_hub(configuration)


def check_harmless(headers: Any, where: object) -> None:
    """Whoever reads the answer takes nothing of it for more than data."""
    assert PASSIVE.fullmatch(headers["content-type"]), (where, headers["content-type"])
    assert headers["x-content-type-options"] == "nosniff", where
    policy = headers["content-security-policy"].split("; ")
    assert {"sandbox", "default-src 'none'", "frame-ancestors 'none'"} <= set(policy), where
    assert headers["cross-origin-resource-policy"] == "same-origin", where


async def test_a_service_and_a_publisher_choose_no_active_type(
    hub: RunningHub, service: ServiceServer
) -> None:
    token = hub.server.tokens.issue("acme", Identity(user_id="ann", rpcs=("*",)), 600)
    bearer = {"Authorization": f"Bearer {token}"}
    for each in ACTIVE_TYPES:
        service.answer = saying(200, BODY, **{"Content-Type": each})
        async with hub.http.post("/v1/hubs/acme/rpc/cart.add", data=b"x", headers=bearer) as answer:
            if answer.status != 200:
                check_harmless(answer.headers, each)
                continue
            assert await answer.read() == BODY
            check_harmless(answer.headers, each)
            assert answer.headers["Content-Disposition"] == "attachment"
            assert answer.headers["Hubbub-Content-Type"].lower() == each.strip().lower()
        path = f"/v1/hubs/acme/channels/{quote(each, safe='')}"
        sent = {"Content-Type": each}
        async with hub.http.post(f"{path}/messages", data=BODY, headers=sent) as answer:
            check_harmless(answer.headers, each)
            kept = answer.status == 200
        for what in ("content", "messages", "presence", "threads"):
            async with hub.http.get(f"{path}/{what}") as answer:
                check_harmless(answer.headers, (what, each))
                if what == "content" and kept:
                    assert await answer.read() == BODY
                    assert answer.headers["Hubbub-Content-Type"].lower() == each.strip().lower()


@pytest.mark.parametrize(
    "passive",
    [
        "application/json",
        "text/plain",
        "text/plain; charset=utf-8",
        'text/plain;charset="UTF-8"',
        "image/png",
        "application/octet-stream",
    ],
)
async def test_a_passive_type_is_passed_on_as_it_is_spelt(hub: RunningHub, passive: str) -> None:
    path = "/v1/hubs/acme/channels/a"
    sent = {"Content-Type": passive, "Origin": "https://page.example"}
    async with hub.http.post(f"{path}/messages", data=b"1", headers=sent) as answer:
        assert answer.status == 200
    async with hub.http.get(f"{path}/content", headers=sent) as answer:
        assert (await answer.read(), answer.headers["Content-Type"]) == (b"1", passive)
        check_harmless(answer.headers, passive)
        assert "Hubbub-Content-Type" not in answer.headers
        assert "Hubbub-Content-Type" in answer.headers["Access-Control-Expose-Headers"]


async def test_a_refusal_that_repeats_what_was_sent_is_harmless(
    hub: RunningHub, service: ServiceServer
) -> None:
    service.answer = saying(422, BODY, **{"Content-Type": "text/html"})
    token = hub.server.tokens.issue("acme", Identity(user_id="ann", rpcs=("*",)), 600)
    bearer = {"Authorization": f"Bearer {token}"}
    name = quote(MARKUP, safe="")
    asked: tuple[tuple[str, str, bytes | None, dict[str, str]], ...] = (
        ("POST", "/v1/hubs/acme/rpc/cart.add", b"x", bearer),
        ("GET", f"/{name}", None, {}),
        ("GET", f"/v1/{name}", None, {}),
        ("GET", f"/v1/hubs/{name}/channels/a/messages", None, {}),
        ("GET", f"/v1/hubs/acme/channels/a/{name}", None, {}),
        ("GET", f"/v1/hubs/acme/channels/a/messages?after={name}", None, {}),
        ("GET", f"/v1/hubs/acme/channels/a/messages?token={name}", None, {}),
        ("GET", f"/v1/hubs/acme/channels/a/messages?where={name}", None, {}),
        ("GET", f"/v1/hubs/acme/events?channel={name}&lastEventID={name}", None, {}),
        ("GET", "/v1/hubs/acme/channels/a/content", None, {"Authorization": MARKUP}),
        ("POST", "/v1/hubs/acme/messages", BODY, {}),
        ("POST", "/v1/hubs/acme/commands", BODY, {}),
        ("PATCH", "/v1/hubs/acme/channels/doc:a/document", b"x", {"Content-Type": MARKUP}),
        ("PUT", "/hub/register", BODY, {}),
        ("PUT", "/hub/subscribe", BODY, {}),
        ("POST", f"/hub/publish/{name}", BODY, {}),
        ("DELETE", f"/hub/unsubscribe?topic={name}&callback={name}", None, {}),
        ("POST", f"/websub?hub.mode={name}", b"", {}),
        ("POST", "/websub", BODY, {"Content-Type": MARKUP}),
        ("POST", f"/websub?hub.mode=publish&hub.topic={name}", BODY, {}),
        ("GET", f"/dashboard/{name}.js", None, {}),
        ("GET", f"/dashboard/api/{name}", None, {}),
        ("GET", f"/openapi.json/{name}", None, {}),
        ("POST", "/healthz", b"x", {}),
        ("GET", "/v1/hubs/acme/socket", None, {}),
        ("GET", "/", None, {"Origin": MARKUP}),
        ("OPTIONS", "/v1/hubs/acme/channels/a/messages", None, {"Origin": MARKUP}),
    )
    for method, path, body, headers in asked:
        url = URL(path, encoded=True)
        async with hub.http.request(method, url, data=body, headers=headers) as answer:
            if answer.status != 204:
                check_harmless(answer.headers, (method, path, answer.status))


async def test_every_route_of_the_table_answers_with_data_alone(hub: RunningHub) -> None:
    """Also a route that comes tomorrow: names, queries and bodies are markup where they can be."""
    hub_token = hub.token("root", hub="*", level=Level.ADMIN)
    headers = {"Authorization": f"Bearer {hub_token}"}
    markup = {name: quote(MARKUP, safe="") for name in PATHS if name not in ("hub", "table")}
    for route in ROUTES:
        if route.operation_id in ("shutDown", "followEvents"):
            continue
        for changed in (markup, {}):
            path = route.path
            for name in route.parameters:
                path = path.replace(f"{{{name}}}", changed.get(name, PATHS[name]))
            body = BODIES.get(route.operation_id)
            async with hub.http.request(route.method, path, json=body, headers=headers) as answer:
                if answer.status != 204 and path not in _OWN_PAGES:
                    check_harmless(answer.headers, (route.method, path))


async def test_a_stream_of_events_is_no_document(hub: RunningHub) -> None:
    async with hub.http.get("/v1/hubs/acme/events?channel=a") as answer:
        check_harmless(answer.headers, "events")
        assert answer.content_type == "text/event-stream"


async def test_metrics_and_health_are_taken_for_nothing_else(hub: RunningHub) -> None:
    headers = {"Authorization": f"Bearer {hub.token('root', hub='*', level=Level.ADMIN)}"}
    for path in _OWN_PAGES:
        async with hub.http.get(path, headers=headers) as answer:
            assert answer.status == 200
            assert answer.content_type in ("text/plain", "application/json")
            assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_only_files_and_pages_of_the_hub_itself_are_sent_as_they_are() -> None:
    """A door that answers otherwise goes through the function that decides the headers."""
    folder = Path(hubbub.gateways.__file__).parent
    found = {
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        if re.search(r"\.answer_own\(|\bown\(|HTTP/1\.1 200", path.read_text("utf-8"))
    }
    assert found == {
        "content_headers.py", "exchange.py", "http.py", "listener.py", "live.py", "static.py",
        "mercure/stream.py",
    }  # fmt: skip


# -- who asks ------------------------------------------------------------------------------------

MARKS = (
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Origin": "null"},
    {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate"},
    {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate"},
)


@pytest.mark.parametrize("marks", MARKS)
async def test_a_form_of_a_page_changes_nothing_with_a_token_in_its_address(
    hub: RunningHub, service: ServiceServer, marks: dict[str, str]
) -> None:
    token = hub.server.tokens.issue("acme", Identity(user_id="ann", rpcs=("*",)), 600)
    for kind in ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain"):
        for path in (
            "/v1/hubs/acme/rpc/cart.add",
            "/v1/hubs/acme/channels/a/messages",
            "/v1/hubs/acme/messages",
            "/v1/hubs/acme/topics/a/messages",
            "/v1/hubs/acme/commands",
            "/v1/hubs/acme/hub/publish/a",
            "/v1/hubs/acme/websub",
        ):
            for name in ("token", "access_token"):
                async with hub.http.post(
                    f"{path}?{name}={token}", data=b"a=1", headers={**marks, "Content-Type": kind}
                ) as answer:
                    said = await answer.text()
                    assert (answer.status, "Authorization" in said) == (403, True), path
    assert service.calls == []


async def test_programs_may_have_the_token_in_the_address_and_pages_in_the_header(
    hub: RunningHub, service: ServiceServer
) -> None:
    token = hub.server.tokens.issue("acme", Identity(user_id="ann", rpcs=("*",)), 600)
    path, bearer = "/v1/hubs/acme/rpc/cart.add", {"Authorization": f"Bearer {token}"}
    for url, headers in (
        (f"{path}?token={token}", {}),
        (f"{path}?token={token}", {"Sec-Fetch-Mode": "cors"}),  # Node says so
        (path, {**bearer, "Origin": "https://page.example", "Sec-Fetch-Site": "cross-site"}),
    ):
        async with hub.http.post(url, data=b"x", headers=headers) as answer:
            assert answer.status == 200, url
    reading = f"/v1/hubs/acme/channels/a/messages?token={token}"
    async with hub.http.get(reading, headers={"Origin": "https://page.example"}) as answer:
        assert answer.status == 200
    assert len(service.calls) == 3


async def test_the_admin_api_answers_programs_and_its_own_pages_alone(start_hub: StartHub) -> None:
    hub = await start_hub(listener__allowedOrigins=["*"])
    own = f"http://{hub.address}"
    bearer = {"Authorization": f"Bearer {hub.token('root', hub='*', level=Level.ADMIN)}"}
    cookie = {"Cookie": "__Host-hubbub=a.b.c"}
    for headers, refused in (
        ({}, False),
        ({"Sec-Fetch-Mode": "cors"}, False),
        ({"Sec-Fetch-Site": "same-origin"}, False),
        ({"Origin": own, "Sec-Fetch-Site": "same-origin", **cookie}, False),
        ({"Origin": own}, False),
        (cookie, True),
        ({"Sec-Fetch-Site": "cross-site"}, True),
        ({"Sec-Fetch-Site": "same-site"}, True),
        ({"Sec-Fetch-Site": "same-site", **cookie}, True),
        ({"Origin": "https://evil.example"}, True),
        ({"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"}, True),
        ({"Origin": "null", "Sec-Fetch-Site": "cross-site"}, True),
        ({"Origin": "http://127.0.0.1"}, True),
    ):
        sent = {**bearer, **headers}
        async with hub.http.get("/v1/admin/hubs", headers=sent) as answer:
            assert answer.status == (403 if refused else 200), headers
        path, order = "/v1/admin/hubs/acme/tokens", {"userID": "x"}
        async with hub.http.post(path, json=order, headers=sent) as answer:
            assert answer.status == (403 if refused else 201), headers
    async with hub.http.get("/openapi.json", headers={"Origin": "https://tool.example"}) as answer:
        assert answer.status == 200


# -- a place of its own ---------------------------------------------------------------------------


async def test_the_dashboard_at_a_host_of_its_own_shares_it_with_nothing_else(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(listener__dashboard__host="Console.example")
    here, page = {"Host": "console.example"}, {"Sec-Fetch-Site": "same-origin"}
    own = {**here, **page}
    of_hub = "/v1/hubs/acme/channels/a/messages"
    for path, headers, status in (
        ("/dashboard/login", own, 200),
        ("/dashboard/login", {**own, "Host": "console.example:8443"}, 200),
        ("/dashboard/login", page, 404),
        ("/dashboard/login", {**page, "Host": "console.example.evil"}, 404),
        ("/dashboard/api/hubs", page, 404),
        ("/dashboard", {}, 404),
        (of_hub, {}, 200),
        (of_hub, here, 404),
        (of_hub, own, 404),
        (of_hub, {**own, "Sec-Fetch-Dest": "document"}, 404),
        (of_hub, {**own, "Sec-Fetch-Dest": "script"}, 404),
        (of_hub, {**own, "Sec-Fetch-Dest": "empty"}, 200),
        (of_hub, {**here, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "empty"}, 404),
        ("/v1/admin/hubs", here, 404),
        ("/docs", here, 404),
        ("/sdk/hubbub.js", here, 404),
        ("/healthz", here, 404),
        ("/healthz", {}, 200),
    ):
        async with hub.http.get(path, headers=headers) as answer:
            assert answer.status == status, (path, headers)


async def test_the_dashboard_at_a_port_of_its_own_shares_it_with_nothing_else(
    start_server: StartHub, unused_tcp_port: int
) -> None:
    hub = await start_server(listener__dashboard__port=unused_tcp_port)
    own = f"http://127.0.0.1:{unused_tcp_port}"
    hubs = "/v1/hubs/acme/channels/a/messages"
    page = {"Sec-Fetch-Site": "same-origin"}
    script = {**page, "Sec-Fetch-Dest": "empty"}
    for path, headers, status in (
        (f"{own}/dashboard/login", page, 200),
        ("/dashboard/login", page, 404),
        ("/dashboard/api/hubs", page, 404),
        (hubs, {}, 200),
        (f"{own}{hubs}", {}, 404),
        (f"{own}{hubs}", page, 404),
        (f"{own}{hubs}", script, 200),
        (f"{own}/v1/hubs/acme/events?channel=a", {}, 404),
        (f"{own}/v1/admin/hubs", page, 404),
        (f"{own}/docs", {}, 404),
        (f"{own}/metrics", {}, 404),
    ):
        async with hub.http.get(path, headers=headers) as answer:
            assert answer.status == status, (path, headers)
    browser = Browser(hub)
    reply = await browser.ask(
        "POST",
        f"{own}/dashboard/login",
        {"token": hub.token("root", hub="*", level=Level.ADMIN)},
        {"Origin": own},
    )
    assert reply.status == 200
    assert (await browser.ask("GET", f"{own}/dashboard/api/hubs")).status == 200
    stolen = await browser.ask(
        "GET", f"{own}/dashboard/api/hubs", headers={"Origin": f"http://{hub.address}"}
    )
    assert stolen.status == 403


# -- what is no HTTP/1 -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line", ["GET /healthz", "GET /healthz HTTP/0.9", "GET /healthz HTTP/2.0", "GET /"]
)
async def test_a_request_line_of_another_version_is_refused(hub: RunningHub, line: str) -> None:
    async with await RawConnection.open(hub.address) as client:
        client.send(f"{line}\r\nHost: test\r\n\r\n".encode())
        answer = await client.response()
        assert (answer.status, answer.error) == (400, "bad_request")
        assert answer.headers["connection"] == "close"
        assert await client.rest() == b""
