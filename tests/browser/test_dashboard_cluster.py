"""The cluster's pages at three real nodes, one of which is killed while somebody looks on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from benchmarks.postgres import LocalPostgres
from harness.cluster import NodeProcess, ground, node_processes
from harness.postgres import new_database

from .conftest import CHROMIUM

api = pytest.importorskip("playwright.async_api", reason="needs scripts/browser.sh")
pytestmark = [
    pytest.mark.spec("UI-01", "CLU-04"),
    pytest.mark.skipif(not CHROMIUM.exists(), reason="Debian's chromium is not installed"),
    pytest.mark.timeout(180),
]

NAMES = ("east", "north", "west")
HUBS = {"acme": {"settings": {"allowAnonymous": True, "defaultPublic": True}}}


async def test_the_pictures_of_a_cluster_follow_a_node_that_is_killed_and_comes_back(
    postgres: LocalPostgres, tmp_path: Path
) -> None:
    async with (
        ground(tmp_path, await new_database(postgres)) as on,
        node_processes(tmp_path, on, HUBS, *NAMES) as nodes,
        api.async_playwright() as playwright,
    ):
        browser = await playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        for name in NAMES:  # something on each of them
            socket = await nodes[name].socket()
            await socket.subscribe(f"room-{name}")
        page = await opened(browser, nodes["east"])
        members = page.get_by_role("table", name="Members")
        rows = members.get_by_role("row")
        await page.locator("summary", has_text="Table").first.click()
        await expect(rows, 4)
        for name in NAMES:
            hears = ", ".join(other for other in NAMES if other != name)
            await members.get_by_role("row", name=f"{name} core {hears} 1").wait_for()
        channels = page.get_by_role("table", name="Channels").last
        await page.locator("summary", has_text="Table").last.click()
        await channels.get_by_text("room-west").wait_for()
        await nodes["west"].kill()
        await members.get_by_role("row", name="east core north 1").wait_for(timeout=40_000)
        await channels.get_by_text("room-west").wait_for(state="detached")
        await nodes["west"].start()
        await members.get_by_role("row", name="west core east, north").wait_for(timeout=40_000)
        await expect(rows, 4)
        await browser.close()


async def opened(browser: Any, node: NodeProcess) -> Any:
    """The cluster's page, as an administrator of all hubs."""
    made = await asyncio.create_subprocess_exec(
        *node.command("token", "--level", "admin", "--hub", "*", "--user", "root"),
        stdout=asyncio.subprocess.PIPE,
    )
    token = (await made.communicate())[0].decode().strip()
    page = await (await browser.new_context()).new_page()
    page.set_default_timeout(60_000)
    await page.goto(f"http://127.0.0.1:{node.port}/dashboard#/cluster")
    await page.get_by_label("Token").fill(token)
    await page.get_by_role("button", name="Log in").click()
    await page.get_by_role("heading", name="Members and their connections").wait_for()
    return page


async def expect(rows: Any, count: int) -> None:
    await rows.nth(count - 1).wait_for()
    assert await rows.count() == count
