"""The pipeline's report in a real browser: drawn by the charts of the dashboard, from one file."""

from __future__ import annotations

import re
from typing import Any

import pytest

from harness.dev_hub import MARKUP
from harness.warehouse import write_warehouse
from harness.warehouse_rows import published
from hubbub.cli.pipeline.report import make_report

from .conftest import axe

pytestmark = [
    pytest.mark.spec("PIPE-04", "UI-01"),
    pytest.mark.timeout(60),
]

MINUTES = (0, 5, 10, 40, 45)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    rows = [published(minutes, 3, hub=MARKUP) for minutes in MINUTES]
    write_warehouse(folder / "warehouse", {"messages": rows})
    page = folder / "report.html"
    page.write_text(make_report(folder / "warehouse", MARKUP), "utf-8")
    return page.as_uri()


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 320)])
def test_gaps_are_gaps_counts_are_whole_and_nothing_from_data_runs(
    browser: Any, report: str, theme: str, width: int
) -> None:
    viewport = {"width": width, "height": 900}
    context = browser.new_context(viewport=viewport, color_scheme=theme, reduced_motion="reduce")
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(report)
    page.get_by_role("heading", level=1, name=MARKUP).wait_for()
    chart = page.locator("figure", has_text="Messages in").first
    chart.locator("canvas").wait_for()
    chart.get_by_text("Table").click()
    rows = [each.split("\t")[1] for each in chart.locator("tbody tr").all_inner_texts()]
    assert rows == ["3", "3", "–", "3", "3", "3"]
    page.locator("figure", has_text="Sessions opened").get_by_text("Nothing to draw.").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert axe(page) == []
    assert page.evaluate("window.hacked") is None
    assert [each for each in wrong if not re.search("axe", each)] == []
    context.close()
