"""What hands do on pages of the dashboard, in one line each."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

PATIENCE_SECONDS = 30


def until(there: Callable[[], object]) -> None:
    """Asks until it is so."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not there():
        assert time.monotonic() < end, "it did not come to that"


def confirm(page: Any, button: str, said: str) -> None:
    """Presses a button that asks first."""
    press(page, button)
    press(page, "Yes, do it", said)


def press(page: Any, button: str, said: str = "") -> None:
    """Presses a button, and waits until the page says so: the same words may still be shown from
    an act before."""
    words = page.get_by_text(said) if said else None
    if words is not None:
        words.evaluate_all("shown => shown.forEach((each) => each.setAttribute('data-before', ''))")
    page.get_by_role("button", name=button, exact=True).first.click()
    if words is not None:
        words.and_(page.locator(":not([data-before])")).first.wait_for()


def fill(page: Any, **fields: str) -> None:
    """Fields by their labels."""
    for label, text in fields.items():
        page.get_by_label(label.replace("_", " "), exact=True).last.fill(text)


def save_json(page: Any, schema: str, value: Any) -> None:
    """In the editor that is open."""
    editor = page.locator("dialog")
    editor.get_by_role("button", name="JSON", exact=True).click()
    editor.get_by_label(schema).fill(json.dumps(value))
    editor.get_by_role("button", name="Save", exact=True).click()
    editor.wait_for(state="detached")


def create(page: Any, one: str, name: str, schema: str, value: Any) -> None:
    """A named setting."""
    page.get_by_label(f"Name of a new {one}").fill(name)
    page.get_by_role("button", name="New", exact=True).click()
    save_json(page, schema, value)
    page.get_by_role("link", name=name, exact=True).wait_for()


def delete(page: Any, name: str) -> None:
    """A named setting, of the list that is shown."""
    page.get_by_role("link", name=name, exact=True).click()
    page.locator("dialog").get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Yes, do it").click()
    page.get_by_role("link", name=name, exact=True).wait_for(state="detached")


def subscribe(page: Any, channel: str) -> None:
    """In the inspector."""
    page.get_by_label("Channel", exact=True).first.fill(channel)
    page.get_by_role("button", name="Subscribe", exact=True).click()
    page.get_by_role("button", name=channel, exact=True).wait_for()
