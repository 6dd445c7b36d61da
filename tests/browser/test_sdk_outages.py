"""The JavaScript SDK in Debian's Chromium, cut off from its hub for chosen times."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from benchmarks.servers import free_port
from harness.cutting_proxy import cutting_proxy
from harness.hub_process import HubProcess
from harness.outages import SLACK_SECONDS, Outage, lengths

api = pytest.importorskip("playwright.async_api", reason="Playwright is not installed")
CHROMIUM = shutil.which("chromium")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
OPEN = {"public": True, "clientPublish": True, "allowAnonymous": True, "store": True}
HUBS = {
    "shop": {
        "settings": {"allowAnonymous": True, "defaultRules": "open", "allowedOrigins": ["*"]},
        "rules": {"open": {**OPEN, "storeByDefault": True, "presence": True}},
    }
}
START = """async ([urls, token]) => {
  const { connect } = await import("/sdk/hubbub.js");
  window.online = 0;
  addEventListener("online", () => { online = Date.now(); });
  window.clients = urls.map((url) => {
    const client = connect(url ?? location.origin, { hub: "shop", token });
    const changes = [];
    client.on("state", ({ state, transport, retryInMs }) => {
      const { id: session, restored } = client.session ?? {};
      changes.push({ at: Date.now(), state, transport, retryInMs, session, restored });
    });
    const got = [];
    client.channel("room").subscribe(({ data }) => got.push(data));
    return { client, changes, got };
  });
  await Promise.all(clients.map(({ client }) => client.ready));
  for (const { changes } of clients) changes.splice(0, changes.length - 1);
}"""
CLIENTS_OF_A_PAGE = 6
"""Chromium lets a page with dozens of sockets that fail wait for up to 5 s before it dials."""
LONG = (pytest.mark.long, pytest.mark.timeout(600))
BACK = """() => clients.every(({ changes }) =>
  changes.length > 1 && changes.at(-1).state === "connected")"""
pytestmark = [
    pytest.mark.spec("UI-02"),
    pytest.mark.skipif(CHROMIUM is None, reason="Debian's Chromium is not installed"),
]


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[HubProcess]:
    async with HubProcess(tmp_path, HUBS, listener={"port": free_port()}) as process:
        await process.start()
        yield process


@pytest.fixture
async def browser() -> AsyncIterator[Any]:
    async with api.async_playwright() as playwright:
        found = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        await found.close()


async def open_page(context: Any, hub: HubProcess, urls: list[str | None]) -> Any:
    page = await context.new_page()
    await page.goto(f"http://127.0.0.1:{hub.port}/healthz")
    await page.evaluate(START, [urls, await hub.token("shop", "ann")])
    return page


@pytest.mark.parametrize("outages", [[0.1, 0.5, 1.01, 2.5], pytest.param(lengths(60), marks=LONG)])
async def test_a_page_is_back_with_its_session_at_the_next_step_after_an_outage(
    hub: HubProcess, browser: Any, outages: list[float]
) -> None:
    async with AsyncExitStack() as stack:
        proxies = [await stack.enter_async_context(cutting_proxy(hub.port)) for _ in outages]
        all_of_them = [Outage(*each) for each in zip(outages, proxies, strict=True)]
        pages = []
        for first in range(0, len(outages), CLIENTS_OF_A_PAGE):
            own = proxies[first : first + CLIENTS_OF_A_PAGE]
            urls: list[str | None] = [f"http://127.0.0.1:{each.port}" for each in own]
            pages.append(await open_page(await browser.new_context(), hub, urls))
        await asyncio.gather(*(each.happen(time.time) for each in all_of_them))
        found: list[Any] = []
        for page in pages:
            await page.wait_for_function(BACK, timeout=60_000)
            found += await page.evaluate("clients.map(({ changes }) => changes)")
        for each, changes in zip(all_of_them, found, strict=True):
            each.changes = changes
            each.check()


@pytest.mark.parametrize("outages", [[0.5, 4.0], pytest.param(lengths(60), marks=LONG)])
async def test_a_page_that_was_offline_is_back_within_a_second_of_being_online(
    hub: HubProcess, browser: Any, outages: list[float]
) -> None:
    """The same session, over a WebSocket, and all that was published meanwhile."""

    async def lose_the_network(seconds: float) -> tuple[float, Any]:
        context = await browser.new_context()
        page = await open_page(context, hub, [None])
        await context.set_offline(True)
        await asyncio.sleep(seconds)  # what is tested is the length
        await context.set_offline(False)
        await page.wait_for_function("online > 0", timeout=60_000)
        await page.evaluate("clients[0].client.channel('room').publish('after')")
        await page.wait_for_function("clients[0].got.includes('after')", timeout=60_000)
        changes, online = await page.evaluate("[clients[0].changes, online]")
        await context.close()
        return online, changes

    turn = asyncio.Semaphore(6)

    async def take_turn(seconds: float) -> tuple[float, Any]:
        async with turn:
            return await lose_the_network(seconds)

    found = await asyncio.gather(*(take_turn(each) for each in outages))
    for seconds, (online, changes) in zip(outages, found, strict=True):
        first, last = changes[0], changes[-1]
        about = f"after {seconds} s: {[(c['state'], c['at'] - online) for c in changes]}"
        assert {each["transport"] for each in changes} == {"websocket"}, about
        assert (last["state"], last["session"]) == ("connected", first["session"]), about
        if len(changes) > 1:
            dialled = [each["at"] for each in changes if each["state"] == "connecting"][-1]
            assert dialled - online < 1_000, about
            assert last["at"] - dialled < 1_000 * SLACK_SECONDS, about
