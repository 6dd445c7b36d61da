"""Whoever looks: by keys, by ear, on a telephone, in the dark; and viewers, who only look."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness.dev_hub import DevHub

from .acts import subscribe
from .conftest import Dashboard, axe
from .routes import MONTH, PAGES, Shown

pytestmark = [
    pytest.mark.spec("UI-01"),
    pytest.mark.timeout(120),
]


@pytest.fixture(
    scope="module",
    params=[("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)],
    ids=lambda param: f"{param[0]}-{param[1]}",
)
def themed(
    request: pytest.FixtureRequest, browser: Any, dev_hub: DevHub, admin_state: Any
) -> Iterator[Dashboard]:
    theme, width = request.param
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=theme,
        storage_state=admin_state,
        reduced_motion="reduce",
    )
    yield Dashboard(context.new_page(), dev_hub.address)
    context.close()


@pytest.mark.parametrize("shown", [*PAGES, MONTH], ids=lambda shown: shown.name)
def test_axe_finds_nothing(themed: Dashboard, shown: Shown) -> None:
    page = themed.page
    themed.go(shown.route, shown.heading)
    page.get_by_text(shown.text).first.wait_for()
    assert axe(page) == []


def test_axe_finds_nothing_in_the_inspector_of_somebody_who_is_connected(
    themed: Dashboard, dev_hub: DevHub
) -> None:
    page = themed.page
    themed.go("inspector?hub=demo", "Inspector")
    page.get_by_role("button", name="Connect", exact=True).click()
    page.get_by_role("heading", name="Session", exact=True).wait_for()
    for channel in ("ledger:may", "notification:news", "doc:plan"):
        subscribe(page, channel)
        assert axe(page) == []
    page.get_by_role("region", name="Event log").locator("summary").first.click()
    for tab in ("Call", "Stream", "Command", "Filter", "Authenticate"):
        page.get_by_role("button", name=tab, exact=True).first.click()
        assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.get_by_role("button", name="Disconnect", exact=True).click()
    themed.check()


@pytest.mark.parametrize("width", [320, 390])
def test_no_page_is_wider_than_a_telephone(
    browser: Any, dev_hub: DevHub, admin_state: Any, width: int
) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 844}, storage_state=admin_state
    )
    dashboard = Dashboard(context.new_page(), dev_hub.address)
    wide = {}
    for shown in (*PAGES, MONTH):
        dashboard.go(shown.route, shown.heading)
        over = dashboard.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        if over > 0:
            wide[shown.name] = over
    context.close()
    assert wide == {}


def test_a_viewer_sees_and_cannot_act(visitor: Dashboard, dev_hub: DevHub) -> None:
    visitor.enter(dev_hub.token("--level", "viewer", "--hub", "demo", "--user", "vera"))
    page = visitor.page
    visitor.go("rules/rules/chatroom?show=rules", "Rules and hubs")
    assert page.get_by_role("button", name="Save").is_disabled()
    visitor.go("delivery?show=webhooks", "Delivery")
    page.get_by_role("link", name="http://127.0.0.1:9/in").click()
    assert page.get_by_role("button", name="Remove").is_disabled()
    status = page.evaluate(
        """fetch('/dashboard/api/hubs/demo/rules/chatroom', {method: 'DELETE',
        headers: {'Hubbub-Dashboard': '1'}}).then((answer) => answer.status)"""
    )
    assert status == 403
    visitor.check()
