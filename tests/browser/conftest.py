"""A real browser, Debian's Chromium, at a real hub. Tests are skipped where the browser cannot be
had: see scripts/browser.sh."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.dev_hub import MARKUP, DevHub, seed
from harness.warehouse import write_warehouse
from harness.warehouse_month import month

CHROMIUM = Path("/usr/bin/chromium")
ROOT = Path(__file__).parents[2]
_AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
_LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


def axe(page: Any) -> list[tuple[str, str, str]]:
    """What in a page breaks a rule of WCAG 2.2 AA that a program can check: the rule, the element
    and what to do. Skips the test where axe-core is not installed."""
    if not _AXE.exists():
        pytest.skip("axe-core is not installed: scripts/browser.sh")
    page.evaluate(_AXE.read_text())
    found = page.evaluate(
        "levels => axe.run(document, {runOnly: levels, resultTypes: ['violations']})", _LEVELS
    )
    return [
        (each["id"], node["html"][:160], node["failureSummary"])
        for each in found["violations"]
        for node in each["nodes"]
    ]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """For one module: Playwright's own event loop runs meanwhile, and tests with another loop
    cannot run in the same process until it has ended."""
    api = pytest.importorskip("playwright.sync_api", reason="needs scripts/browser.sh")
    if not CHROMIUM.exists():
        pytest.skip("Debian's chromium is not installed: scripts/browser.sh")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def dev_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevHub]:
    """With something on every page, and traffic."""
    hub = DevHub(tmp_path_factory.mktemp("hub"))
    seed(hub)
    now = datetime.now(UTC)
    write_warehouse(hub.warehouse, month(now), now.timestamp())
    url = hub.address.replace("http", "ws", 1)
    hub.run(str(ROOT / "examples" / "traffic.py"), "--seconds", "600", "--url", url)
    hostile = hub.token("--hub", "demo", "--user", MARKUP, "--grant", "*=ps")
    hub.run(str(ROOT / "tests" / "browser" / "crowd.py"), url, "demo", hostile, "1", "1", "room")
    yield hub
    hub.close()


class Dashboard:
    """A page of the dashboard, with everything that went wrong in it."""

    def __init__(self, page: Any, address: str) -> None:
        page.set_default_timeout(60_000)
        self.page = page
        self.address = address
        self.wrong: list[str] = []
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: self.wrong.append(f"dialog: {dialog.message}"))
        page.on("console", self._said)

    def _said(self, message: Any) -> None:
        """Answers of the hub that are not 200 are in the console, too; tests ask about those."""
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.wrong.append(message.text)

    def enter(self, token: str) -> None:
        self.page.goto(f"{self.address}/dashboard")
        self.page.get_by_label("Token").or_(self.page.get_by_label("Or a token")).fill(token)
        self.page.get_by_role("button", name="Log in").click()
        self.page.get_by_role("button", name="Log out").wait_for()

    def go(self, route: str, heading: str | None = None) -> None:
        self.page.goto(f"{self.address}/dashboard#/{route}")
        if heading is not None:
            self.page.get_by_role("heading", level=1, name=heading).wait_for()
        self.page.locator(".loading").first.wait_for(state="detached")

    def check(self) -> None:
        """Nothing went wrong, and nothing of what people sent was run."""
        assert self.wrong == []
        assert self.page.evaluate("window.hacked") is None


@pytest.fixture
def visitor(browser: Any, dev_hub: DevHub) -> Iterator[Dashboard]:
    """Nobody yet."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield Dashboard(context.new_page(), dev_hub.address)
    context.close()


@pytest.fixture(scope="module")
def admin_state(browser: Any, dev_hub: DevHub) -> Any:
    """The cookie of an administrator of all hubs: logging in is slow, and tested elsewhere."""
    context = browser.new_context()
    Dashboard(context.new_page(), dev_hub.address).enter(dev_hub.admin)
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def dashboard(browser: Any, dev_hub: DevHub, admin_state: Any) -> Iterator[Dashboard]:
    """An administrator of all hubs."""
    dev_hub.revive()
    context = browser.new_context(
        viewport={"width": 1280, "height": 900}, storage_state=admin_state
    )
    yield Dashboard(context.new_page(), dev_hub.address)
    context.close()
