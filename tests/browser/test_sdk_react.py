"""The hooks for React in Debian's Chromium, at a real hub."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from benchmarks.servers import free_port
from harness.hub_process import HubProcess
from harness.node import needs_node, node

api = pytest.importorskip("playwright.async_api", reason="Playwright is not installed")
CHROMIUM = shutil.which("chromium")
ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
PAGE = ROOT / "tests" / "browser" / "react" / "page.tsx"
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
OPEN = {"public": True, "clientPublish": True, "allowAnonymous": True, "presence": True}
HUBS = {
    "acme": {
        "settings": {"defaultRules": "open"},
        "rules": {"open": {**OPEN, "liveHistory": True}, "closed": {}},
        "namespaces": {"closed": "closed"},
        "channels": {name: {"rules": "closed"} for name in ("doc:closed", "notification:closed")},
    }
}
REMEMBER = """
  window.sent = [];
  const { send } = WebSocket.prototype;
  WebSocket.prototype.send = function (data) { sent.push(data); send.call(this, data); };
"""
pytestmark = [
    pytest.mark.spec("UI-02"),
    needs_node,
    pytest.mark.skipif(CHROMIUM is None, reason="Debian's Chromium is not installed"),
    pytest.mark.skipif(not (WEB / "node_modules").exists(), reason="run `make web`"),
]


async def bundle(target: Path) -> Path:
    """As an application's bundler does."""
    script = (
        "import('esbuild').then(({ build }) => build({"
        " bundle: true, format: 'esm', jsx: 'automatic',"
        f" entryPoints: [{json.dumps(str(PAGE))}], outfile: {json.dumps(str(target))},"
        f" nodePaths: [{json.dumps(str(WEB / 'node_modules'))}],"
        " define: { 'process.env.NODE_ENV': '\"development\"' } }))"
    )
    process = await asyncio.create_subprocess_exec(node(), "-e", script, cwd=WEB)
    assert await process.wait() == 0
    return target


async def test_every_hook_shows_what_happens_and_strict_mode_costs_no_second_subscription(
    tmp_path: Path,
) -> None:
    script = await bundle(tmp_path / "page.js")
    async with (
        HubProcess(tmp_path, HUBS, listener={"port": free_port()}) as hub,
        api.async_playwright() as playwright,
    ):
        await hub.start()
        address = f"http://127.0.0.1:{hub.port}"
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = await browser.new_page()
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        await page.add_init_script(REMEMBER)

        token = await hub.token("acme", "ann")
        await page.goto(f"{address}/healthz#token={token}")
        await page.add_script_tag(path=script, type="module")

        async def shows(**expected: Any) -> None:
            condition = """(expected) => {
              const shown = JSON.parse(document.querySelector("output")?.textContent ?? "{}");
              return Object.entries(expected).every(
                ([name, value]) => JSON.stringify(shown[name]) === JSON.stringify(value));
            }"""
            await page.wait_for_function(condition, arg=expected, timeout=30_000)

        await shows(state="connected", user="ann", here=1, lines=[], unread=0)
        await shows(refused=4 * ["not_permitted"] + 3 * [None])
        await page.click("#say")
        await shows(lines=["said 0"])
        await page.click("#add")
        await shows(n=1, pending=0)
        path = "/v1/admin/hubs/acme/channels/notification:u:ann/notifications"
        service = await hub.token("acme", "clock", "service")
        headers = {"Authorization": f"Bearer {service}"}
        body = {"notifications": [{"event": "e", "payload": {"text": "t"}}]}
        async with (
            aiohttp.ClientSession(address) as http,
            http.post(path, json=body, headers=headers) as answer,
        ):
            assert answer.status in (200, 201), await answer.text()
        await shows(unread=1)
        await page.click("#toggle")
        await page.click("#toggle")  # at once: the subscriptions linger
        await shows(n=1, here=1)
        sent: list[str] = await page.evaluate("sent")
        asked = [
            each["channel"]
            for frame in sent
            for line in frame.split("\n")
            if json.loads(line)["event"] == "Subscribe"
            for each in json.loads(line)["payload"]["channels"]
        ]
        expected = ["closed:1", "closed:2", "doc:1", "doc:closed"]
        expected += ["notification:closed", "notification:u:ann", "room:1"]
        assert sorted(set(asked)) == expected
        events = [json.loads(line)["event"] for frame in sent for line in frame.split("\n")]
        assert "Unsubscribe" not in events
        assert wrong == []
        await browser.close()
