"""The dashboard's door: its pages, its logins, and what a page of somebody else cannot do there."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.admin import Caller, admin_of
from harness.admin_login import AdminUrl
from harness.clock import FakeClock
from harness.dashboard import Browser
from harness.running_hub import RunningHub, StartHub, open_hub
from hubbub.domain.permissions import Grant, Level
from hubbub.gateways.static import static_file
from hubbub.server.settings import developer_settings, load
from hubbub.server.web_files import PAGE_HEADERS
from hubbub.server.wiring import Server

API = "/dashboard/api/hubs/acme"


async def browser_of(hub: RunningHub, level: Level = Level.ADMIN, of: str = "*") -> Browser:
    """Somebody who has logged in with a token."""
    browser = Browser(hub)
    reply = await browser.log_in(token=hub.token("root", hub=of, level=level))
    assert reply.status == 200, reply.text
    return browser


@pytest.mark.spec("UI-01", "ADMIN-03")
async def test_from_login_to_logout(hub: RunningHub) -> None:
    browser = Browser(hub)
    assert (await browser.ask("GET", "/dashboard/me")).code == "not_authenticated"
    assert (await browser.ask("GET", "/dashboard/login")).json["password"] is False
    token = hub.token("root", hub="*", level=Level.ADMIN, grants=(Grant("x" * 200),))
    reply = await browser.log_in(token=token)
    assert (reply.json["userID"], reply.json["level"], reply.json["hub"]) == ("root", "admin", "*")
    assert set(browser.attributes.split("; ")) == {
        "Max-Age=900",
        "Path=/",
        "HttpOnly",
        "Secure",
        "SameSite=Strict",
    }
    assert browser.cookie not in ("", token)
    assert "x" * 50 not in browser.cookie
    assert (await browser.ask("GET", "/dashboard/me")).json["version"]
    listed = await browser.ask("GET", "/dashboard/api/hubs?q=acme")
    assert [row["hub"] for row in listed.json["items"]] == ["acme"]
    rules = await browser.ask("PUT", f"{API}/rules/loud", {"public": True})
    assert rules.status == 201, rules.text
    stolen = browser.cookie
    assert (await browser.ask("POST", "/dashboard/logout")).status == 204
    assert browser.cookie == ""
    browser.cookie = stolen
    assert (await browser.ask("GET", f"{API}/rules")).code == "invalid_token"
    assert (await Caller(hub, stolen)("GET", "/v1/admin/hubs")).code == "invalid_token"
    actions = [e["action"] for e in (await admin_of(hub)("GET", "/v1/admin/audit")).json["items"]]
    assert actions == ["revocation.add", "rules.put", "dashboard.login"]


@pytest.mark.spec("UI-01", "OPS-02")
@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": None},
        {"Hubbub-Dashboard": None},
        {"Hubbub-Dashboard": "0"},
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "null"},
    ],
)
async def test_a_page_of_another_origin_does_nothing_with_the_cookie(
    hub: RunningHub, headers: dict[str, str | None]
) -> None:
    browser = await browser_of(hub)
    for method, path, body in (
        ("PUT", f"{API}/rules/loud", {"public": True}),
        ("DELETE", "/dashboard/api/hubs/acme", None),
        ("POST", "/dashboard/login", {"token": "a.b.c"}),
        ("POST", "/dashboard/logout", None),
    ):
        reply = await browser.ask(method, path, body, headers)
        assert (reply.status, reply.code) == (403, "origin_refused"), (method, path)
        assert "Access-Control-Allow-Credentials" not in reply.headers
    if headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
        for path in (f"{API}/rules", "/dashboard/me"):
            assert (await browser.ask("GET", path, headers=headers)).status == 403
    assert (await browser.ask("GET", f"{API}/rules/loud")).status == 404
    assert (await browser.ask("GET", "/dashboard/me")).status == 200


@pytest.mark.spec("UI-01", "OPS-02")
async def test_the_cookie_opens_no_other_door_and_gives_away_no_token(hub: RunningHub) -> None:
    browser = await browser_of(hub)
    for path in ("/v1/admin/hubs", "/v1/admin/hubs/acme/rules", "/metrics"):
        assert (await browser.ask("GET", path)).status == 401
    for path in ("token/refresh", "login", "%74oken/refresh", "log%69n"):
        assert (await browser.ask("POST", f"/dashboard/api/{path}")).status == 404
    reply = await browser.ask(
        "GET", f"{API}/rules", headers={"Authorization": "Bearer a.b.c", "Cookie": "x=1"}
    )
    assert reply.code == "not_authenticated"
    for odd in ("/dashboard/api", "/dashboard/api/", "/dashboard/api//hubs"):
        assert (await browser.ask("GET", odd)).status == 404, odd


@pytest.mark.spec("UI-01", "ADMIN-03")
async def test_the_cookie_is_revoked_with_the_token_that_was_shown_for_it(
    start_server: StartHub,
) -> None:
    clock = FakeClock()
    hub = await start_server(clock=clock)
    token = hub.token("svc", level=Level.SERVICE, ttl=10_000)
    browser, other = Browser(hub), Browser(hub)
    for each in (browser, other):
        await each.log_in(token=token)
    await other.ask("POST", "/dashboard/logout")
    clock.advance(6 * 60)  # so that the cookie is renewed
    first = browser.cookie
    assert (await browser.ask("GET", f"{API}/rules")).status == 200
    assert browser.cookie != first
    shown = hub.server.node.tokens.verify(token, "acme")
    order = {"kind": "token", "subject": shown.token_id}
    assert (await admin_of(hub)("POST", "/v1/admin/hubs/acme/revocations", order)).status == 201
    assert (await browser.ask("GET", f"{API}/rules")).code == "invalid_token"


@pytest.mark.spec("UI-01")
async def test_a_refusal_that_passes_does_not_log_anybody_out(hub: RunningHub) -> None:
    browser = await browser_of(hub, Level.SERVICE, "acme")
    restores = hub.server.administration.restores
    await restores.suspend("acme", "r")
    assert (await browser.ask("GET", f"{API}/rules")).code == "hub_restoring"
    await restores.resume("acme", "r", False)
    assert (await browser.ask("GET", f"{API}/rules")).status == 200


@pytest.mark.spec("UI-01", "SEC-03")
async def test_no_cookie_is_made_of_a_cookie_to_outlive_the_token_that_was_shown(
    hub: RunningHub,
) -> None:
    token = hub.token("svc", level=Level.SERVICE)
    first, second = Browser(hub), Browser(hub)
    assert (await first.log_in(token=token)).status == 200
    refused = await second.log_in(token=first.cookie)
    assert (refused.status, refused.code) == (401, "invalid_token")
    assert (await second.ask("GET", f"{API}/rules")).code == "not_authenticated"


@pytest.mark.spec("UI-01", "ADMIN-03")
async def test_levels_hold_at_the_dashboard(start_server: StartHub) -> None:
    hub = await start_server(open_hub(), open_hub("other"))
    refused = await Browser(hub).log_in(token=hub.token("ann"))
    assert refused.code == "not_permitted"
    viewer = await browser_of(hub, Level.VIEWER, "acme")
    assert (await viewer.ask("GET", f"{API}/channels")).status == 200
    assert (await viewer.ask("PUT", f"{API}/rules/x", {"public": True})).code == "not_permitted"
    assert (await viewer.ask("POST", f"{API}/tokens", {"userID": "a"})).code == "not_permitted"
    assert (await viewer.ask("GET", "/dashboard/api/hubs/other/channels")).code == "invalid_token"
    service = await browser_of(hub, Level.SERVICE, "acme")
    assert (await service.ask("PUT", f"{API}/rules/x", {"public": True})).status == 201
    assert (await service.ask("GET", "/dashboard/api/hubs")).status == 401
    everywhere = await browser_of(hub, Level.VIEWER)
    assert (await everywhere.ask("GET", "/dashboard/api/hubs")).status == 200
    assert (await everywhere.ask("GET", "/dashboard/api/counters")).status == 200


@pytest.mark.spec("UI-01")
async def test_the_cookie_slides_and_never_outlives_the_login(start_server: StartHub) -> None:
    clock = FakeClock()
    hub = await start_server(clock=clock)
    browser = Browser(hub)
    token = hub.token("root", hub="*", level=Level.ADMIN, ttl=2000)
    until = (await browser.log_in(token=token)).json["expiresAt"]
    first = browser.cookie
    await browser.ask("GET", f"{API}/rules")
    assert browser.cookie == first  # too early
    clock.advance(400)
    await browser.ask("GET", f"{API}/rules")
    assert browser.cookie != first
    assert (await browser.ask("GET", "/dashboard/me")).json["expiresAt"] > until
    clock.advance(800)
    await browser.ask("GET", f"{API}/rules")
    last = (await browser.ask("GET", "/dashboard/me")).json["expiresAt"]
    assert last <= until + 1100 + 1
    renewed, browser.cookie = browser.cookie, first
    assert (await browser.ask("GET", "/dashboard/me")).code == "invalid_token"
    browser.cookie = renewed
    clock.advance(801)
    assert (await browser.ask("GET", "/dashboard/me")).code == "invalid_token"
    assert browser.cookie == ""


@pytest.mark.spec("UI-01", "ADMIN-03")
async def test_logging_out_ends_the_cookies_before_it_too(start_server: StartHub) -> None:
    clock = FakeClock()
    hub = await start_server(clock=clock)
    browser = await browser_of(hub)
    earlier = browser.cookie
    clock.advance(301)
    await browser.ask("GET", "/dashboard/me")
    assert browser.cookie != earlier
    await browser.ask("POST", "/dashboard/logout")
    browser.cookie = earlier
    assert (await browser.ask("GET", "/dashboard/me")).code == "invalid_token"


@pytest.mark.spec("UI-01")
async def test_bad_logins_are_named_and_limited(start_server: StartHub) -> None:
    hub = await start_server(limits__failedCredentialsPerMinute=3)
    browser = Browser(hub)
    for body, code in (
        ({}, "bad_request"),
        ({"token": "x", "ticket": "y"}, "bad_request"),
        ({"password": "x"}, "bad_request"),
        ({"token": 7}, "bad_request"),
        ({"credentials": {"user": "root"}}, "not_found"),
        ({"ticket": "guessed"}, "invalid_token"),
        ({"token": "a.b.c"}, "invalid_token"),
    ):
        assert (await browser.ask("POST", "/dashboard/login", body)).code == code, body
    large = {"token": "x" * 30_000}
    assert (await browser.ask("POST", "/dashboard/login", large)).code == "bad_request"
    codes = {(await browser.log_in(token=f"a.b.{n}")).code for n in range(100)}
    assert codes == {"invalid_token", "rate_limited"}
    assert (await browser.ask("PUT", "/dashboard/login", {})).code == "method_not_allowed"
    assert browser.cookie == ""


@pytest.mark.spec("UI-01", "OPS-02")
async def test_a_ticket_is_good_once_and_not_for_long(hub: RunningHub, tmp_path: Path) -> None:
    assert hub.server.tickets is None  # only developer mode has them
    clock = FakeClock()
    keys = {"listener.port": 0, "storage.path": str(tmp_path / "dev")}
    server = Server(developer_settings(load(None, {}, keys)), clock)
    await server.start()
    developer = RunningHub(server)
    try:
        assert server.tickets is not None
        ticket, late = server.tickets.issue(), server.tickets.issue()
        browser = Browser(developer)
        reply = await browser.log_in(ticket=ticket)
        assert (reply.status, reply.json["level"], reply.json["hub"]) == (200, "admin", "*")
        assert (await browser.ask("GET", "/dashboard/api/hubs")).status == 200
        assert (await Browser(developer).log_in(ticket=ticket)).code == "invalid_token"
        clock.advance(601)
        assert (await Browser(developer).log_in(ticket=late)).code == "invalid_token"
        for _ in range(20):
            last = await Browser(developer).log_in(ticket="guessed")
        assert last.code == "rate_limited"
    finally:
        await developer.close()


@pytest.mark.spec("UI-01")
async def test_pages_come_with_their_policy_and_no_other_page_frames_them(
    start_hub: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = static_file(b"<!doctype html>" * 90, "text/html; charset=utf-8", headers=PAGE_HEADERS)
    monkeypatch.setattr("hubbub.server.doors.dashboard_files", lambda: {"index.html": page})
    hub = await start_hub()
    for path in ("/dashboard", "/dashboard/", "/dashboard/channels/acme", "/dashboard/index.html"):
        async with hub.http.get(path) as reply:
            assert reply.status == 200, path
            assert reply.headers["Content-Encoding"] == "gzip"
            policy = reply.headers["Content-Security-Policy"]
            assert "frame-ancestors 'none'" in policy
            assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy
            assert "unsafe" not in policy
            assert reply.headers["X-Frame-Options"] == "DENY"
            tag = reply.headers["ETag"]
        async with hub.http.get(path, headers={"If-None-Match": tag}) as reply:
            assert reply.status == 304
    for path in ("/dashboard/no.js", "/dashboard/..%2fsecret.txt"):
        async with hub.http.get(path) as reply:
            assert reply.status == 404
    async with hub.http.post("/dashboard") as reply:
        assert reply.status == 405


async def test_without_the_build_the_door_says_so(
    start_server: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub.server.doors.dashboard_files", dict)
    hub = await start_server()
    async with hub.http.get("/dashboard") as reply:
        assert (reply.status, "make web" in await reply.text()) == (404, True)


@pytest.mark.spec("UI-01", "ADMIN-03")
async def test_a_password_goes_to_the_url_of_administrators(
    start_hub: StartHub, admin_url: tuple[AdminUrl, str]
) -> None:
    login, url = admin_url
    hub = await start_hub(admin__url=url)
    browser = Browser(hub)
    assert (await browser.ask("GET", "/dashboard/login")).json["password"] is True
    reply = await browser.log_in(credentials={"user": "olga", "password": "p"})
    assert (reply.json["userID"], reply.json["hub"]) == ("olga", "*")
    assert login.received == [b'{"user": "olga", "password": "p"}']
    assert (await browser.ask("GET", "/dashboard/api/hubs")).status == 200
    login.answer = b'{"success": false}'
    assert (await Browser(hub).log_in(credentials={"user": "eve"})).code == "not_authenticated"


@pytest.mark.spec("UI-01", "ADMIN-01")
async def test_the_page_of_the_api_has_the_same_policy_and_loads_nothing_from_elsewhere(
    hub: RunningHub,
) -> None:
    for path, kind in (
        ("/docs", "text/html"),
        ("/docs/docs.js", "text/javascript"),
        ("/docs/docs.css", "text/css"),
    ):
        async with hub.http.get(path) as reply:
            assert (reply.status, reply.content_type) == (200, kind)
            assert (
                reply.headers["Content-Security-Policy"] == PAGE_HEADERS["Content-Security-Policy"]
            )
            text = await reply.text()
            assert "innerHTML" not in text
            assert "http" not in text.replace("/docs.", "")
