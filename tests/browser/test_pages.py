"""The pages of developer mode and of the documentation, in a real browser."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.servers import free_port
from harness.documentation import blocks_of
from harness.nginx import accepting
from harness.running_hub import RunningHub
from hubbub.domain.permissions import Identity, Level
from hubbub.server.settings import developer_settings, load
from hubbub.server.wiring import Server

api = pytest.importorskip("playwright.async_api", reason="Playwright is not installed")
CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
)
ROOT = Path(__file__).parents[2]
HALF_HOUR = ROOT / "docs" / "how-to" / "first-half-hour.md"
PATIENCE_MS = 30_000
pytestmark = [
    pytest.mark.spec("UI-04"),
    pytest.mark.skipif(CHROMIUM is None, reason="Debian's Chromium is not installed"),
]


def block(page: Path, language: str) -> str:
    return next(each.text for each in blocks_of(page) if each.language == language)


@pytest.fixture
async def browser() -> AsyncIterator[Any]:
    async with api.async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        await browser.close()


@pytest.fixture
async def demo(tmp_path: Path) -> AsyncIterator[RunningHub]:
    keys = {"listener.port": 0, "storage.path": str(tmp_path / "data")}
    server = Server(developer_settings(load(None, {}, keys)))
    await server.start()
    running = RunningHub(server)
    yield running
    await running.close()


async def window(browser: Any, address: str) -> Any:
    """Of another person each time."""
    page = await (await browser.new_context()).new_page()
    page.set_default_timeout(PATIENCE_MS)
    await page.goto(address)
    return page


@pytest.mark.parametrize("name", ["chat", "board"])
async def test_what_is_said_in_one_window_is_seen_in_another(
    demo: RunningHub, browser: Any, name: str
) -> None:
    pages = [await window(browser, f"http://{demo.address}/{name}") for _ in range(2)]
    for page in pages:
        await page.get_by_text("connected", exact=True).wait_for()
    await pages[0].locator("button:enabled").first.wait_for()
    await pages[0].fill("#text", "buy <b>milk</b>")
    await pages[0].press("#text", "Enter")
    for page in pages:
        await page.locator("li", has_text="buy <b>milk</b>").first.wait_for()


KEPT = """async (table) => {
  const done = (request) => new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  const database = await done(indexedDB.open("hubbub:demo:board:copies"));
  const count = await done(database.transaction(table).objectStore(table).count());
  database.close();
  return count > 0;
}"""


async def kept(page: Any, table: str) -> None:
    """Wait until the browser's database has something of the board."""
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while not await page.evaluate(KEPT, table):
            await asyncio.sleep(0.02)


async def test_what_is_written_on_the_board_without_a_connection_outlives_the_page(
    demo: RunningHub, browser: Any
) -> None:
    address = f"http://{demo.address}/board"
    context = await browser.new_context()
    page = await context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    await page.goto(address)
    await page.locator("#add:enabled").wait_for()
    await kept(page, "documents")
    cut = True

    async def refuse(socket: Any) -> None:
        if cut:
            await socket.close()
        else:
            socket.connect_to_server()

    await context.route_web_socket("**/*", refuse)
    await context.route("**/v1/**", lambda route: route.abort())
    await page.reload()
    await page.get_by_text("no connection: changes wait here").wait_for()
    await page.locator("#add:enabled").wait_for()
    await page.fill("#text", "milk")
    await page.press("#text", "Enter")
    await page.locator("li.waiting", has_text="milk").wait_for()
    await kept(page, "changes")
    await page.reload()
    await page.locator("li", has_text="milk").wait_for()
    await page.get_by_text("no connection: changes wait here").wait_for()
    cut = False
    await page.reload()
    other = await window(browser, address)
    await other.locator("li", has_text="milk").wait_for()
    assert await page.locator("li", has_text="milk").count() == 1


async def test_notifications_are_shown_on_the_board_and_read_for_all(
    demo: RunningHub, browser: Any
) -> None:
    pages = [await window(browser, f"http://{demo.address}/board") for _ in range(2)]
    for page in pages:
        await page.get_by_text("connected", exact=True).wait_for()
    token = demo.server.tokens.issue("demo", Identity(level=Level.SERVICE), 60)
    headers = {"Authorization": f"Bearer {token}"}
    path = "/v1/admin/hubs/demo/channels/notification:board/notifications"
    body = {"notifications": [{"event": "new", "payload": {"text": "a <b>parcel</b>"}}]}
    async with demo.http.post(path, json=body, headers=headers) as answer:
        assert answer.status in (200, 201), await answer.text()
    for page in pages:
        await page.locator("#inbox li.unread", has_text="a <b>parcel</b>").wait_for()
        assert await page.locator("#badge").text_content() == "1"
    await pages[0].get_by_role("button", name="Mark all that you see as read").click()
    for page in pages:
        await page.locator("#badge[data-unread='0']").wait_for()
        await page.locator("#inbox li:not(.unread)", has_text="parcel").wait_for()


@pytest.mark.parametrize(("name", "word"), [("quickstart.md", "hi"), ("javascript.md", "hello")])
async def test_the_first_page_that_is_shown_says_its_word(
    demo: RunningHub, browser: Any, tmp_path: Path, name: str, word: str
) -> None:
    """Opened as a file, as somebody does who has just saved it."""
    file = tmp_path / "page.html"
    shown = block(ROOT / "docs" / name, "html")
    file.write_text(shown.replace("localhost:8000", demo.address))
    page = await (await browser.new_context()).new_page()
    said: asyncio.Queue[str] = asyncio.Queue()
    page.on("console", lambda message: said.put_nowait(message.text))
    page.on("pageerror", lambda error: said.put_nowait(str(error)))
    await page.goto(file.as_uri())
    if 'id="list"' in shown:
        await page.get_by_text(word).wait_for(timeout=PATIENCE_MS)
    else:
        assert await asyncio.wait_for(said.get(), PATIENCE_MS / 1000) == word


@asynccontextmanager
async def program(port: int, *arguments: str, folder: Path) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        cwd=folder,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(30):
            await accepting(port, process)
        yield
    finally:
        process.kill()
        await process.wait()


async def test_after_the_first_half_hour_a_user_watches_orders_in_the_browser(
    browser: Any, tmp_path: Path
) -> None:
    logins, pages = free_port(), free_port()
    config = tmp_path / "hubbub.yaml"
    text = block(HALF_HOUR, "yaml").replace(":9000", f":{logins}").replace(":5173", f":{pages}")
    config.write_text(text)
    keys = {"listener.port": 0, "storage.path": str(tmp_path / "data")}
    server = Server(load(config, {}, keys))
    await server.start()
    hub = RunningHub(server)
    (tmp_path / "pages").mkdir()
    watch = block(HALF_HOUR, "html").replace("localhost:8000", f"localhost:{server.port}")
    (tmp_path / "pages" / "watch.html").write_text(watch)
    serving = next(each.text for each in blocks_of(HALF_HOUR) if each.name == "pages")
    arguments = serving.replace("5173", str(pages)).split()[1:]
    provider = (str(ROOT / "examples" / "auth_provider.py"), str(logins))
    async with (
        program(logins, *provider, folder=tmp_path),
        program(pages, *arguments, folder=tmp_path),
    ):
        page = await window(browser, f"http://localhost:{pages}/watch.html")
        await page.fill("#user", "ann")
        await page.fill("#password", "secret")
        await page.get_by_role("button").click()
        await page.get_by_text("watching orders:ann:17, news:today").wait_for()
        token = server.node.tokens.issue("shop", Identity(level=Level.SERVICE), 60)
        path = "/v1/hubs/shop/channels/orders:ann:17/messages?event=shipped&store=true"
        async with hub.http.post(
            path, json={"status": "shipped"}, headers={"Authorization": f"Bearer {token}"}
        ) as answer:
            assert answer.status == 200
        await page.get_by_text("shipped").wait_for()
        for stolen in ("data/secrets.json", "../data/secrets.json", "hubbub.yaml"):
            answer = await page.request.get(f"http://localhost:{pages}/{stolen}")
            assert answer.status == 404, "no key is served"
    await hub.close()
