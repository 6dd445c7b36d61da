"""A real browser at the dashboard of a hub under measurement; needs scripts/browser.sh."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.hub import Hubbub

_CHROMIUM = "/usr/bin/chromium"


@contextmanager
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=_CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield started
        started.close()


def address(server: Hubbub, route: str = "") -> str:
    return f"http://127.0.0.1:{server.port}/dashboard{route and f'#/{route}'}"


def logged_in(started: Any, server: Hubbub) -> Any:
    """A context whose pages belong to an administrator of all hubs."""
    context = started.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(address(server))
    page.get_by_label("Token").fill(server.token(level="admin", hub="*"))
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("button", name="Log out").wait_for()
    page.close()
    return context
