"""The JavaScript SDK in a real browser, Debian's Chromium, at hubs that are killed."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from benchmarks.servers import free_port
from harness.hub_process import HubProcess

api = pytest.importorskip("playwright.async_api", reason="Playwright is not installed")
CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
)
OPEN = {"public": True, "clientPublish": True, "allowAnonymous": True, "store": True}
HUBS = {
    "shop": {
        "settings": {"allowAnonymous": True, "defaultRules": "open"},
        "rules": {"open": {**OPEN, "storeByDefault": True}},
    }
}
START = """async (name) => {
  const { connect } = await import("/sdk/hubbub.js");
  window.client = connect(location.origin, { hub: "shop" });
  window.got = [];
  window.states = [];
  client.on("state", ({ state }) => states.push(state));
  window.gaps = 0;
  client.on("gap", () => gaps++);
  client.channel(name).subscribe((message) => got.push(message.data));
}"""
OUTBOX = """async () => {
  const { connect } = await import("/sdk/hubbub.js");
  const { openOutbox } = await import("/sdk/offline.js");
  window.client = connect(location.origin, { hub: "shop" });
  window.outbox = await openOutbox(client, "orders");
}"""
SHARED = """async ([name, worker]) => {
  const { connect } = await import("/sdk/hubbub.js");
  const { shared } = await import("/sdk/shared.js");
  const transports = [shared(worker ? { worker } : {})];
  window.client = connect(location.origin, { hub: "shop", transports });
  window.got = [];
  window.gaps = 0;
  client.on("gap", () => gaps++);
  client.channel(name).subscribe((message) => got.push(message.data));
  await client.ready;
}"""
pytestmark = [
    pytest.mark.spec("UI-02"),
    pytest.mark.skipif(CHROMIUM is None, reason="Debian's Chromium is not installed"),
]


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[HubProcess]:
    listener = {"port": free_port()}
    async with HubProcess(tmp_path, HUBS, listener=listener) as process:
        await process.start()
        yield process


@pytest.fixture
async def tabs() -> AsyncIterator[Any]:
    async with api.async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield await browser.new_context()
        await browser.close()


async def open_tab(tabs: Any, hub: HubProcess) -> Any:
    """At the hub's own origin, on a page that has no script."""
    page = await tabs.new_page()
    await page.goto(f"http://127.0.0.1:{hub.port}/healthz")
    return page


async def until(page: Any, condition: str) -> None:
    await page.wait_for_function(condition, timeout=30_000)


async def stored(hub: HubProcess, topic: str) -> list[Any]:
    """All messages of a topic, in order."""
    found: list[Any] = []
    async with aiohttp.ClientSession() as session:
        after, more = "0", True
        while more:
            url = f"http://127.0.0.1:{hub.port}/v1/hubs/shop/channels/{topic}/messages"
            async with session.get(url, params={"after": after}) as answer:
                page = json.loads(await answer.text())
            found += [each["payload"]["json"] for each in page["messages"]]
            more = page["more"]
            after = page["messages"][-1]["channelSerial"] if page["messages"] else after
    return found


@pytest.mark.spec("UI-02")
async def test_a_page_comes_back_after_the_hub_was_killed_and_misses_nothing(
    hub: HubProcess, tabs: Any
) -> None:
    page = await open_tab(tabs, hub)
    await page.evaluate(START, "room")
    await page.evaluate("client.channel('room').publish(1)")
    await until(page, "got.length === 1")
    await hub.kill()
    await until(page, "client.state !== 'connected'")
    await page.evaluate("void (window.later = client.channel('room').publish(3))")
    await hub.start()
    async with aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{hub.port}/v1/hubs/shop/channels/room/messages"
        async with session.post(url, json=2) as answer:  # perhaps before the page is back
            assert answer.status == 200
    await until(page, "got.length === 3")
    assert sorted(await page.evaluate("got")) == [1, 2, 3]
    assert await page.evaluate("gaps") == 0
    assert await page.evaluate("later.then((receipt) => receipt.id.length > 0)")


@pytest.mark.spec("UI-02")
async def test_where_no_websocket_gets_through_a_page_lives_on_events_and_misses_nothing(
    hub: HubProcess, tabs: Any
) -> None:
    await tabs.route_web_socket("**/*", lambda socket: socket.close())
    page = await open_tab(tabs, hub)
    await page.evaluate(START, "room")
    await page.evaluate("client.channel('room').publish(1)")
    await until(page, "got.length === 1")
    assert await page.evaluate("client.transport") == "sse"
    await hub.kill()
    await until(page, "client.state !== 'connected'")
    await page.evaluate("void (window.later = client.channel('room').publish(3))")
    await hub.start()
    async with aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{hub.port}/v1/hubs/shop/channels/room/messages"
        async with session.post(url, json=2) as answer:
            assert answer.status == 200
    await until(page, "got.length === 3")
    assert sorted(await page.evaluate("got")) == [1, 2, 3]
    assert await page.evaluate("gaps") == 0


@pytest.mark.spec("UI-02")
async def test_puts_of_a_tab_that_was_closed_offline_are_stored_once_by_the_next(
    hub: HubProcess, tabs: Any
) -> None:
    page = await open_tab(tabs, hub)
    await page.evaluate(OUTBOX)
    assert await page.evaluate("outbox.durable")
    await page.evaluate("outbox.put('orders', 0).then(({ confirmed }) => confirmed)")
    await hub.kill()
    await page.evaluate(
        "(async () => { for (let n = 1; n <= 1000; n++) await outbox.put('orders', n); })()"
    )
    assert await page.evaluate("outbox.waiting()") == 1000
    other = await tabs.new_page()  # keeps the browser's profile open
    await page.close()
    await hub.start()
    page = await open_tab(tabs, hub)
    await page.evaluate(OUTBOX)
    await page.evaluate("outbox.drained()")
    assert await stored(hub, "orders") == list(range(1001))
    await other.close()


@pytest.mark.spec("UI-02")
async def test_two_tabs_share_one_outbox_and_the_second_sends_when_the_first_is_closed(
    hub: HubProcess, tabs: Any
) -> None:
    pages = [await open_tab(tabs, hub) for _ in range(2)]
    for page in pages:
        await page.evaluate(OUTBOX)
    put = """async (tab) => {
      const puts = [];
      for (let n = 0; n < 50; n++) puts.push((await outbox.put("shared", [tab, n])).confirmed);
      return (await Promise.all(puts)).length;
    }"""
    assert await pages[0].evaluate(put, 0) == 50
    assert await pages[1].evaluate(put, 1) == 50  # sent by the first tab, told by broadcast
    await pages[0].close()
    assert await pages[1].evaluate(put, 2) == 50
    found = await stored(hub, "shared")
    assert found == [[tab, n] for tab in range(3) for n in range(50)]


@pytest.mark.spec("UI-02")
@pytest.mark.parametrize("worker", ["/sdk/hubbub-worker.js", ""])
async def test_two_tabs_share_one_connection_and_the_second_misses_nothing_when_the_first_dies(
    hub: HubProcess, tabs: Any, worker: str
) -> None:
    """In a SharedWorker, and in the first of the tabs."""
    pages = [await open_tab(tabs, hub) for _ in range(2)]
    for page in pages:
        await page.evaluate(SHARED, ["room", worker])
    assert await pages[1].evaluate("client.transport") == "shared"
    await pages[0].evaluate("client.channel('room').publish(1)")
    await pages[1].evaluate("client.channel('room').publish(2)")
    for page in pages:
        await until(page, "got.length === 2")
    ids = {await page.evaluate("client.session.id") for page in pages}
    assert len(ids) == 1
    await pages[0].close(run_before_unload=False)
    async with aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{hub.port}/v1/hubs/shop/channels/room/messages"
        async with session.post(url, json=3) as answer:
            assert answer.status == 200
    await until(pages[1], "got.length === 3")
    await hub.kill()
    await until(pages[1], "client.state !== 'connected'")
    await hub.start()
    await pages[1].evaluate("client.channel('room').publish(4)")
    await until(pages[1], "got.length === 4")
    assert await pages[1].evaluate("got") == [1, 2, 3, 4]
    assert await pages[1].evaluate("gaps") == 0
