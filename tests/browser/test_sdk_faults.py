"""What goes wrong around a page, with the JavaScript SDK in Debian's Chromium: sleep, closed and
duplicated tabs, refused storage, servers that talk nonsense, upgrades of the hub."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGCONT, SIGSTOP, SIGTERM, Signals
from typing import Any

import aiohttp
import pytest

from benchmarks.servers import free_port
from harness.hub_process import HubProcess

api = pytest.importorskip("playwright.async_api", reason="Playwright is not installed")
CHROMIUM = shutil.which("chromium")
SDK = Path(__file__).parents[2] / "src" / "hubbub" / "web" / "sdk"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--host-resolver-rules=MAP lan.test 127.0.0.1",  # a name that is no secure context
)
OPEN = {"public": True, "clientPublish": True, "allowAnonymous": True, "store": True}
HUBS = {
    "shop": {
        "settings": {"allowAnonymous": True, "defaultRules": "open", "allowedOrigins": ["*"]},
        "rules": {"open": {**OPEN, "storeByDefault": True, "presence": True}},
    }
}
START = """async ([url, options]) => {
  const { connect } = await import("/sdk/hubbub.js");
  const started = { hub: "shop", ...options };
  if (window.token) started.token = window.token;
  window.client = connect(url ?? location.origin, started);
  window.got = [];
  window.gaps = 0;
  window.errors = [];
  client.on("gap", () => gaps++);
  client.on("state", ({ error }) => error && errors.push(error.code));
  client.channel("room").subscribe((message) => got.push(message.data));
}"""
OUTBOX = """async () => {
  const { connect, liveDocument } = await import("/sdk/hubbub.js");
  const { openOutbox } = await import("/sdk/offline.js");
  window.client = connect(location.origin, { hub: "shop" });
  window.outbox = await openOutbox(client, "orders");
  window.list = liveDocument(client, "doc:list", { cache: outbox });
}"""
pytestmark = [
    pytest.mark.spec("UI-02"),
    pytest.mark.skipif(CHROMIUM is None, reason="Debian's Chromium is not installed"),
]


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[HubProcess]:
    async with HubProcess(tmp_path, HUBS, listener={"port": free_port()}) as process:
        await process.start()
        yield process


@asynccontextmanager
async def browsing(**options: Any) -> AsyncIterator[Any]:
    """Tabs of one person."""
    async with api.async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, **options)
        yield await browser.new_context()
        await browser.close()


@pytest.fixture
async def tabs() -> AsyncIterator[Any]:
    async with browsing() as context:
        yield context


async def open_tab(tabs: Any, hub: HubProcess, host: str = "127.0.0.1") -> Any:
    """At the hub's own origin, on a page that has no script."""
    page = await tabs.new_page()
    await page.goto(f"http://{host}:{hub.port}/healthz")
    return page


async def until(page: Any, condition: str) -> None:
    await page.wait_for_function(condition, timeout=30_000)


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0.02)


async def ask(hub: HubProcess, method: str, path: str, body: Any = None) -> Any:
    url = f"http://127.0.0.1:{hub.port}/v1/hubs/shop/{path}"
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, json=body) as answer,
    ):
        assert answer.status == 200, await answer.text()
        return await answer.json()


async def publish(hub: HubProcess, data: Any) -> None:
    await ask(hub, "POST", "channels/room/messages", data)


async def serve_from_disk(tabs: Any) -> None:
    """A page and the SDK, also while the hub is away: as a service worker does."""

    async def fulfil(route: Any) -> None:
        name = route.request.url.rpartition("/")[2]
        if name == "healthz":
            await route.fulfill(body="{}", content_type="text/plain")
        else:
            await route.fulfill(path=SDK / name, content_type="text/javascript")

    await tabs.route("**/healthz", fulfil)
    await tabs.route("**/sdk/*.js", fulfil)


IN_DATABASE = """async (table) => {
  const done = (request) =>
    new Promise((resolve) => { request.onsuccess = () => resolve(request.result); });
  const database = await done(indexedDB.open("hubbub:shop:orders:copies"));
  const rows = await done(database.transaction(table).objectStore(table).getAll());
  database.close();
  return rows;
}"""


async def kept(page: Any, table: str) -> list[Any]:
    """Rows of the copies in the browser's database."""
    rows: list[Any] = await page.evaluate(IN_DATABASE, table)
    return rows


async def test_edits_of_a_tab_that_was_closed_offline_are_shown_and_sent_by_the_next(
    hub: HubProcess, tabs: Any
) -> None:
    page = await open_tab(tabs, hub)
    await page.evaluate(OUTBOX)
    await page.evaluate("list.change([{ op: 'add', path: '/milk', value: 1 }])")

    async def document_is_kept() -> bool:
        return [each["document"] for each in await kept(page, "documents")] == [{"milk": 1}]

    await eventually(document_is_kept)
    await hub.kill()
    await until(page, "list.stale")
    edit = "void list.change([{ op: 'add', path: '/n', value: %s }]).catch(() => {})"
    for number in range(1, 4):
        await page.evaluate(edit % number)

    async def edits_are_kept() -> bool:
        return len(await kept(page, "changes")) == 3

    await eventually(edits_are_kept)
    other = await tabs.new_page()  # keeps the browser's profile open
    await page.close()

    await serve_from_disk(tabs)
    page = await open_tab(tabs, hub)
    await page.evaluate(OUTBOX)
    assert await page.evaluate("list.ready") == {"milk": 1, "n": 3}
    assert await page.evaluate("[list.pending, list.stale]") == [3, True]
    await hub.start()
    await until(page, "list.pending === 0 && !list.stale")
    found = await ask(hub, "GET", "channels/doc:list/document/changes?after=0")
    operations = [(each["path"], each["value"]) for c in found["changes"] for each in c["ops"]]
    assert operations == [("/milk", 1), ("/n", 1), ("/n", 2), ("/n", 3)]
    await other.close()


async def test_edits_of_a_tab_that_crashes_are_sent_by_the_tab_beside_it(
    hub: HubProcess, tabs: Any
) -> None:
    pages = [await open_tab(tabs, hub) for _ in range(2)]
    for page in pages:
        await page.evaluate(OUTBOX)
        await page.evaluate("list.ready")
    await hub.kill()
    for number, page in enumerate(pages):
        await until(page, "list.stale")
        edit = f"void list.change([{{ op: 'add', path: '/tab{number}', value: true }}])"
        await page.evaluate(edit)

    async def both_are_kept() -> bool:
        return len(await kept(pages[0], "changes")) == 2

    await eventually(both_are_kept)
    session = await tabs.new_cdp_session(pages[0])
    crash = asyncio.ensure_future(session.send("Page.crash"))  # never answered
    await pages[0].wait_for_event("crash")
    await hub.start()
    await until(pages[1], "list.value.tab0 && list.value.tab1 && list.pending === 0")
    found = await ask(hub, "GET", "channels/doc:list/document/changes?after=0")
    assert len(found["changes"]) == 2
    crash.cancel()


async def test_after_an_hour_offline_and_a_closed_tab_a_thousand_puts_are_stored_once(
    hub: HubProcess, tabs: Any
) -> None:
    page = await tabs.new_page()
    await page.clock.install()
    await page.goto(f"http://127.0.0.1:{hub.port}/healthz")
    await page.evaluate(OUTBOX)
    await page.evaluate("client.ready")
    await hub.kill()
    await page.evaluate(
        "(async () => { for (let n = 0; n < 1000; n++) await outbox.put('orders', n); })()"
    )
    for _ in range(6):
        await page.clock.fast_forward(600_000)  # the machine sleeps, and its clock goes on
    await until(page, "client.state !== 'connected'")
    other = await tabs.new_page()  # keeps the browser's profile open
    await page.close()
    await hub.start()
    page = await open_tab(tabs, hub)
    await page.evaluate(OUTBOX)
    assert await page.evaluate("outbox.drained().then(() => outbox.refused())") == []
    numbers: list[int] = []
    while True:
        path = f"channels/orders/messages?after={len(numbers)}"
        found = await ask(hub, "GET", path)
        numbers += [each["payload"]["json"] for each in found["messages"]]
        if not found["more"]:
            break
    assert numbers == list(range(1000))
    await other.close()


async def test_a_token_that_ends_while_the_machine_sleeps_is_renewed_and_nothing_is_missed(
    hub: HubProcess, tabs: Any
) -> None:
    made = await asyncio.gather(*(mint(hub, ttl) for ttl in ("15", "1h")))
    page = await open_tab(tabs, hub)
    await page.evaluate("tokens => { window.tokens = tokens; window.whys = []; }", made)
    await page.evaluate(
        "void (window.token = async (why) => tokens[Math.min(whys.push(why), tokens.length) - 1])"
    )
    await page.evaluate(START, [None, {}])
    await page.evaluate("client.ready")
    await publish(hub, 1)
    await until(page, "got.length === 1")
    signal_pages(SIGSTOP)

    async def ended() -> bool:
        present = await ask(hub, "GET", "channels/room/presence")
        return not present["presence"]

    await eventually(ended)
    await publish(hub, 2)
    signal_pages(SIGCONT)
    await until(page, "got.length === 2")
    assert await page.evaluate("[got, gaps, client.session.userId]") == [[1, 2], 0, "ann"]
    whys = await page.evaluate("whys")
    assert whys[0] == "start"
    assert set(whys[1:]) <= {"expiring", "refused"}


def signal_pages(signal: Signals) -> None:
    """To the processes of this test's browser that run pages."""
    parents: dict[int, int] = {}
    pages: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            number = int(process.name)
            status = (process / "stat").read_text().rpartition(")")[2].split()
            parents[number] = int(status[1])
            if b"--type=renderer" in (process / "cmdline").read_bytes():
                pages.append(number)
    for page in pages:
        above = page
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid():
            os.kill(page, signal)


async def mint(hub: HubProcess, ttl: str) -> str:
    wanted = ("--hub", "shop", "--user", "ann", "--grant", "room=ps", "--ttl", ttl)
    made = await asyncio.create_subprocess_exec(
        *hub.command("token", *wanted), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await made.communicate()
    return said.decode().strip()


async def test_a_reload_keeps_the_session_and_a_duplicated_tab_gets_its_own(
    hub: HubProcess, tabs: Any
) -> None:
    page = await open_tab(tabs, hub)
    token = await mint(hub, "1h")
    start = f"window.token = '{token}'"
    await page.evaluate(start)
    await page.evaluate(START, [None, {"restore": "tab"}])
    first = await page.evaluate("client.ready.then(({ id }) => id)")
    await publish(hub, 1)
    await until(page, "got.length === 1")
    await page.reload()
    await publish(hub, 2)
    await page.evaluate(start)
    await page.evaluate(START, [None, {"restore": "tab"}])
    assert await page.evaluate("client.ready.then(({ id }) => id)") == first
    await until(page, "got.length === 1")
    assert await page.evaluate("got") == [2]  # what came between the two pages

    async with page.expect_popup() as opening:  # with a copy of the tab's storage
        await page.evaluate("void window.open(location.href)")
    twin = await opening.value
    await twin.evaluate(start)
    await twin.evaluate(START, [None, {"restore": "tab"}])
    assert await twin.evaluate("client.ready.then(({ id }) => id)") != first
    await publish(hub, 3)
    for each in (page, twin):
        await until(each, "got.at(-1) === 3")
        assert await each.evaluate("[client.state, gaps, errors]") == ["connected", 0, []]


async def test_a_page_in_a_sandbox_without_any_storage_works_and_says_that_nothing_is_kept(
    hub: HubProcess, tabs: Any
) -> None:
    """IndexedDB, sessionStorage and Web Locks throw there."""
    origin = f"http://127.0.0.1:{hub.port}"
    script = f"""
      const {{ connect, liveDocument }} = await import("{origin}/sdk/hubbub.js");
      const {{ openOutbox }} = await import("{origin}/sdk/offline.js");
      const client = connect("{origin}", {{ hub: "shop", restore: "tab" }});
      const outbox = await openOutbox(client, "orders");
      const puts = await Promise.all([1, 2, 3].map((n) => outbox.put("orders", n)));
      const receipts = await Promise.all(puts.map(({{ confirmed }}) => confirmed));
      const list = liveDocument(client, "doc:list", {{ cache: outbox }});
      const version = await list.change([{{ op: "add", path: "/n", value: 1 }}]);
      const serials = receipts.map(({{ serial }}) => Number(serial));
      parent.postMessage([outbox.durable, serials, version], "*");
    """
    page = await open_tab(tabs, hub)
    said = await page.evaluate(
        """(script) => new Promise((resolve) => {
          addEventListener("message", ({ data }) => resolve(data));
          const frame = document.createElement("iframe");
          frame.sandbox = "allow-scripts";
          frame.srcdoc = `<script type="module">${script}</` + "script>";
          document.body.append(frame);
        })""",
        script,
    )
    assert said == [False, [1, 2, 3], 1]


async def test_a_page_without_tls_has_topics_documents_and_an_outbox(
    hub: HubProcess, tabs: Any
) -> None:
    """No secure context: no `crypto.randomUUID`, no Web Locks."""
    page = await open_tab(tabs, hub, "lan.test")
    assert await page.evaluate("[isSecureContext, 'locks' in navigator]") == [False, False]
    await page.evaluate(OUTBOX)
    await page.evaluate("list.change([{ op: 'add', path: '/n', value: 1 }])")
    put = "outbox.put('orders', 1).then(({ confirmed }) => confirmed).then(({ id }) => id)"
    assert len(await page.evaluate(put)) > 0


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def server(talk: Talk) -> AsyncIterator[tuple[str, list[int]]]:
    """Answers every upgrade with 101, then does as it is told. Answers its address, and how many
    connections there were."""
    connections: list[int] = []
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:-2])
        key = fields.get("Sec-WebSocket-Key")
        if key is None:  # the stream of events, after three sockets
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\n<html>")
            return
        connections.append(1)
        magic = f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()
        accepted = base64.b64encode(hashlib.sha1(magic).digest())
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Protocol: hubbub.json.v1\r\n"
            b"Sec-WebSocket-Accept: " + accepted + b"\r\n\r\n"
        )
        await talk(reader, writer)

    running = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = running.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}", connections
    finally:
        running.close()
        for writer in writers:
            writer.transport.abort()


def text_frame(text: str) -> bytes:
    data = text.encode()
    return bytes([0x81, len(data)]) + data if len(data) < 126 else b""


async def garbage(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\xff\x00 this is no frame \x13\x37")


async def nonsense(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(text_frame('[1, {"event": null'))


async def odd(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """JSON, and no envelope of the protocol."""
    writer.write(text_frame("null"))


async def half(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(text_frame('{"event": "SessionInfo", "payload": {}}')[:20])
    await writer.drain()
    writer.transport.abort()


async def silence(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


@pytest.mark.parametrize("talk", [garbage, nonsense, odd, half, silence])
async def test_a_server_that_talks_nonsense_is_tried_ever_more_rarely_and_the_page_lives(
    hub: HubProcess, tabs: Any, talk: Talk
) -> None:
    wrong: list[str] = []
    async with server(talk) as (address, connections):
        page = await tabs.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        await page.clock.install()
        await page.goto(f"http://127.0.0.1:{hub.port}/healthz")
        await page.evaluate(START, [address, {}])

        async def tried() -> bool:
            await page.clock.run_for(5_000)
            return len(connections) >= 5

        await eventually(tried)
        assert await page.evaluate("['waiting', 'connecting'].includes(client.state)")
        assert set(await page.evaluate("errors")) <= {"unreachable", "request_timeout"}
        assert await page.evaluate("client.channel('room').publish(1), client.queued") == 1
        await page.evaluate(START, [None, {}])  # another client of the same page is at ease
        await page.evaluate("client.channel('room').publish(2)")
        await until(page, "got.length === 1")
    assert wrong == []


async def test_an_upgrade_of_the_hub_under_an_open_page_is_not_noticed_by_it(
    hub: HubProcess, tabs: Any
) -> None:
    """The new hub has another SDK at the same address, and a proxy in front that refuses
    WebSockets: the page has all that it needs."""
    refusing = False

    async def refuse(socket: Any) -> None:
        if refusing:
            await socket.close()
        else:
            socket.connect_to_server()

    await tabs.route_web_socket("**/*", refuse)
    page = await open_tab(tabs, hub)
    await page.evaluate(START, [None, {}])
    await page.evaluate("client.ready")
    await publish(hub, 1)
    await until(page, "got.length === 1 && client.transport === 'websocket'")
    refusing = True
    hub.signal(SIGTERM)
    await hub.ended()
    await tabs.route("**/sdk/**", lambda route: route.abort())
    await page.evaluate("void (window.later = client.channel('room').publish(3))")
    await hub.start()
    await publish(hub, 2)
    await until(page, "got.length === 3 && client.transport === 'sse'")
    assert sorted(await page.evaluate("got")) == [1, 2, 3]
    assert await page.evaluate("later.then(({ id }) => id.length > 0)")
    assert await page.evaluate("gaps") == 0


async def test_a_page_that_was_left_comes_back_from_the_cache_with_all_that_it_missed(
    hub: HubProcess,
) -> None:
    async with browsing(ignore_default_args=["--disable-back-forward-cache"]) as tabs:
        page = await open_tab(tabs, hub)
        await page.evaluate(START, [None, {}])
        await page.evaluate("client.ready")
        await publish(hub, 1)
        await until(page, "got.length === 1")
        await page.goto(f"http://127.0.0.1:{hub.port}/readyz")
        await publish(hub, 2)
        await page.go_back(wait_until="commit")
        await until(page, "window.got?.length === 2")  # the same page: it has its variables
        assert await page.evaluate("[got, gaps, client.state]") == [[1, 2], 0, "connected"]


TYPES = "require-trusted-types-for 'script'; trusted-types hubbub"


async def test_tabs_share_a_connection_by_user_also_under_trusted_types(
    hub: HubProcess, tabs: Any
) -> None:
    async def strict(route: Any) -> None:
        headers = {"Content-Security-Policy": TYPES, "Content-Type": "text/plain"}
        await route.fulfill(body="{}", headers=headers)

    await tabs.route("**/healthz", strict)
    shared = """async (token) => {
      const { connect } = await import("/sdk/hubbub.js");
      const { shared } = await import("/sdk/shared.js");
      const transports = [shared({ worker: "/sdk/hubbub-worker.js" })];
      window.client = connect(location.origin, { hub: "shop", token, transports });
      return (await client.ready).id;
    }"""
    ann, bob = [await hub.token("shop", user) for user in ("ann", "bob")]
    again = await hub.token("shop", "ann")
    assert ann != again  # another one for the same
    sessions = []
    for token in (ann, again, bob):
        page = await open_tab(tabs, hub)
        sessions.append(await page.evaluate(shared, token))
        assert await page.evaluate("client.transport") == "shared"
    assert sessions[0] == sessions[1] != sessions[2]
