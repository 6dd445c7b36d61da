"""Takes the pictures of the dashboard for the documentation, from a hub of its own with seeded
data, into docs/images/dashboard/ or another folder; needs scripts/browser.sh:

    PYTHONPATH=tests:. .venv/bin/python scripts/dashboard_pictures.py [FOLDER]
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
import time
import urllib.request
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from browser.routes import MONTH, PAGES
from harness.dev_hub import DevHub, seed
from harness.warehouse import write_warehouse
from harness.warehouse_month import month
from hubbub.cli.pipeline.report import make_report

ROOT = Path(__file__).parents[1]
WATCHED_SECONDS = 45
"""So that there is something in the charts."""
VIEWS = (
    ("", 1280, 900, "light"),
    ("-dark", 1280, 900, "dark"),
    ("-narrow", 390, 844, "light"),
    ("-narrow-dark", 390, 844, "dark"),
)
COLOURS = 128


CLUSTER_PORT = 18_400
SECTIONS = {
    42: "Members and their connections",
    43: "Hubs and their channels",
    45: "Nodes, hubs, channels and sessions",
}
"""Figures of the system that inspired this project, and where their subjects are here."""
ENLARGED = {43: 44, 45: 46}
CHARTS = {
    47: "Active channels",
    48: "Active sessions",
    49: "Active hubs",
    50: "Messages by the hour",
    51: "Bytes by the hour",
    52: "Sessions opened",
    53: "Mean duration",
}
TABS = {"57-messages": "room:tea", "57-notifications": "notification:news", "57": "doc:plan"}
"""Channels of the inspector, the last of which stays open."""
HUBS = ("room", "orders", "sensors")
OPEN = {"allowAnonymous": True, "defaultPublic": True}


def main() -> None:
    given = len(sys.argv) > 1
    folder = Path(sys.argv[1]) if given else ROOT / "docs" / "images" / "dashboard"
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        _picture_report(browser, folder)
        _picture_cluster(browser, folder)
        with tempfile.TemporaryDirectory() as data:
            hub = _seeded(Path(data))
            try:
                for suffix, width, height, theme in VIEWS if given else VIEWS[:2]:
                    size = {"width": width, "height": height}
                    context = browser.new_context(viewport=size, color_scheme=theme)
                    page = context.new_page()
                    _log_in(page, hub.address, hub.admin)
                    _picture_pages(page, hub, folder, suffix)
                    context.close()
            finally:
                hub.close()
        browser.close()


def _picture_report(browser: Any, folder: Path) -> None:
    """The page that `hubbub pipeline report` writes."""
    now = datetime.now(UTC)
    with tempfile.TemporaryDirectory() as data:
        write_warehouse(Path(data), month(now), now.timestamp())
        written = Path(data) / "report.html"
        written.write_text(make_report(data), "utf-8")
        page = browser.new_page(viewport={"width": 1280, "height": 1440})
        page.goto(written.as_uri())
        page.locator("canvas").last.wait_for()
        _take(page, folder / "report.png", whole=False)
        page.close()


def _seeded(folder: Path) -> DevHub:
    hub = DevHub(folder)
    seed(hub)
    now = datetime.now(UTC)
    write_warehouse(hub.warehouse, month(now), now.timestamp())
    url = hub.address.replace("http", "ws", 1)
    hub.run(str(ROOT / "examples" / "traffic.py"), "--seconds", "600", "--url", url)
    shop = hub.token("--hub", "shop", "--user", "ann", "--grant", "*=ps")
    crowd = str(ROOT / "tests" / "browser" / "crowd.py")
    hub.run(crowd, url, "demo", "", "6", "4", "room")
    hub.run(crowd, url, "shop", shop, "5", "3", "orders")
    return hub


def _picture_pages(page: Any, hub: DevHub, folder: Path, suffix: str) -> None:
    if not suffix:
        time.sleep(WATCHED_SECONDS)
    for shown in (*PAGES, MONTH):
        _show(page, hub, shown)
        _take(page, folder / f"{shown.name}{suffix}.png", shown.whole)
        if shown is MONTH and not suffix:
            for number, title in CHARTS.items():
                heading = page.get_by_role("heading", name=title, exact=True)
                _take_part(page.locator("figure", has=heading), folder, str(number))
        if shown.name == "overview" and not suffix:
            _take(page, folder / "figure-41.png", whole=False)
    _inspect(page, hub)
    if not suffix:
        _picture_inspector(page, folder)
    _take(page, folder / f"inspector{suffix}.png", whole=True)


def _picture_inspector(page: Any, folder: Path) -> None:
    """Its parts: who it is, what passed, and each kind of channel."""
    _take(page, folder / "figure-54.png", whole=False)
    _take_part(_section(page, "Session"), folder, "55")
    log = page.get_by_role("region", name="Event log")
    for frame in ("SessionInfo", "Publish"):
        log.locator("details", has_text=frame).first.locator("summary").first.click()
    log.evaluate("(box) => { box.style.maxHeight = 'none'; }")
    _take_part(_section(page, "Event log"), folder, "56")
    log.evaluate("(box) => { box.style.maxHeight = ''; }")
    for name, channel in TABS.items():
        page.get_by_role("button", name=channel, exact=True).click()
        page.wait_for_timeout(200)
        _take_part(_section(page, "Channels"), folder, name)


def _section(page: Any, title: str) -> Any:
    return page.locator("section", has=page.get_by_role("heading", name=title, exact=True))


def _picture_cluster(browser: Any, folder: Path) -> None:
    """Three nodes, as `make cluster` starts them, with sessions on each."""
    command = [sys.executable, str(ROOT / "scripts" / "cluster.py"), "--port", str(CLUSTER_PORT)]
    cluster = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    crowds: list[subprocess.Popen[Any]] = []
    try:
        assert cluster.stdout is not None
        lines = iter(cluster.stdout.readline, "")
        made = next(line for line in lines if " token --level admin" in line)
        token = subprocess.run(shlex.split(made), capture_output=True, text=True, check=True)
        address = f"http://127.0.0.1:{CLUSTER_PORT}"
        for name in HUBS:
            _open_hub(address, token.stdout.strip(), name)
        for place, prefix in enumerate(HUBS):
            url = f"ws://127.0.0.1:{CLUSTER_PORT + 10 * place}"
            crowd = str(ROOT / "tests" / "browser" / "crowd.py")
            for of_hub in ("demo", prefix):
                arguments = [url, of_hub, "", str(2 + place), "3", prefix]
                crowds.append(subprocess.Popen([sys.executable, crowd, *arguments]))
        page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        _log_in(page, address, token.stdout.strip())
        page.goto(f"{address}/dashboard#/cluster")
        page.wait_for_timeout(8000)
        _take(page, folder / "cluster-of-three.png", whole=True)
        for number, title in SECTIONS.items():
            section = page.locator("section", has=page.get_by_role("heading", name=title))
            _take_part(section, folder, str(number))
            if number in ENLARGED:
                for _ in range(3):
                    section.get_by_role("button", name="Larger").click()
                _take_part(section.locator(".graph"), folder, str(ENLARGED[number]))
    finally:
        for process in [*crowds, cluster]:
            process.terminate()
        for process in [*crowds, cluster]:
            process.wait(30)


def _open_hub(address: str, token: str, name: str) -> None:
    """A hub whose channels are open to everybody."""
    where = f"{address}/v1/admin/hubs/{name}/settings"
    request = urllib.request.Request(where, json.dumps(OPEN).encode(), method="PUT")
    request.add_header("Authorization", f"Bearer {token}")
    urllib.request.urlopen(request, timeout=20).close()


def _take_part(part: Any, folder: Path, figure: str) -> None:
    """The bar at the top would cover it; the page takes no style sheet from elsewhere."""
    part.page.evaluate("document.querySelector('.bar-top').style.position = 'static'")
    _keep(part.screenshot(), folder / f"figure-{figure}.png")


def _take(page: Any, path: Path, whole: bool) -> None:
    page.evaluate("scrollTo(0, 0)")
    _keep(page.screenshot(full_page=whole), path)


def _keep(picture: bytes, path: Path) -> None:
    """Few colours: the pages have few, and the files stay small."""
    taken = Image.open(BytesIO(picture)).convert("RGB")
    few = taken.quantize(COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def _log_in(page: Any, address: str, token: str) -> None:
    page.goto(f"{address}/dashboard")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()
    page.locator("h1", has_text="Overview").wait_for()


def _show(page: Any, hub: DevHub, shown: Any) -> None:
    page.goto(f"{hub.address}/dashboard#/{shown.route}")
    page.get_by_text(shown.text).first.wait_for()
    page.locator(".loading").first.wait_for(state="detached")
    page.wait_for_timeout(1500)


def _inspect(page: Any, hub: DevHub) -> None:
    """As a client, with channels of each kind."""
    page.goto(f"{hub.address}/dashboard#/inspector?hub=demo")
    page.get_by_role("textbox", name="User").fill("ann")
    page.get_by_label("Extra").fill('{"role": "designer", "team": {"name": "green", "floor": 2}}')
    page.get_by_role("button", name="Connect", exact=True).click()
    page.get_by_role("heading", name="Session", exact=True).wait_for()
    for channel in TABS.values():
        page.get_by_label("Channel", exact=True).first.fill(channel)
        page.get_by_role("button", name="Subscribe", exact=True).click()
        page.get_by_role("button", name=channel, exact=True).wait_for()
    page.get_by_role("button", name="room:tea", exact=True).click()
    for kind, text in (("text", "Tea is ready"), ("json", '{"cups": 2}'), ("base64", "AP8QIA==")):
        page.get_by_label("Payload is").select_option(kind)
        page.get_by_role("textbox", name="Payload").fill(text)
        page.get_by_role("button", name="Publish", exact=True).last.click()
    page.get_by_role("region", name="Messages").get_by_text("4 bytes").wait_for()
    page.get_by_role("button", name="doc:plan", exact=True).click()
    page.wait_for_timeout(500)


if __name__ == "__main__":
    main()
