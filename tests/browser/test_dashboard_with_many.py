"""Lists of thousands: pages of rows come as one scrolls; only rows in sight are in the document."""

from __future__ import annotations

import re

import pytest

from harness.dev_hub import DevHub

from .conftest import ROOT, Dashboard

pytestmark = [
    pytest.mark.spec("UI-01"),
    pytest.mark.timeout(120),
]

SESSIONS, CHANNELS = 8, 150


def test_thousands_of_channels_are_scrolled_through_and_searched(
    dashboard: Dashboard, dev_hub: DevHub
) -> None:
    url = dev_hub.address.replace("http", "ws", 1)
    crowd = str(ROOT / "tests" / "browser" / "crowd.py")
    dev_hub.run(crowd, url, "demo", "", str(SESSIONS), str(CHANNELS), "many")
    page = dashboard.page
    dashboard.go("channels?hub=demo&q=many%3A&sort=name&live=1", "Channels")
    foot = page.locator(".table-foot", has_text=re.compile(r"^1,201 rows, 200 loaded"))
    foot.wait_for(timeout=30_000)
    table = page.get_by_role("table", name="Channels")
    assert table.get_by_role("row").count() < 80
    while page.get_by_role("link", name="many:all").count() == 0:
        table.evaluate("(box) => box.scrollTo(0, box.scrollHeight)")
        page.wait_for_timeout(50)
    assert table.get_by_role("row").count() < 80
    page.locator(".table-foot", has_text=re.compile("^1,201 rows$")).wait_for()
    page.keyboard.press("/")
    page.keyboard.type("01199")
    page.get_by_role("link", name="many:01199").wait_for()
    dashboard.go("cluster?hub=demo&view=nodes", "Cluster")
    page.locator("canvas").wait_for()
    dashboard.check()
