"""The report: one page, with what the tables say, and nothing in it that data could turn on. How it
looks is in tests/browser/test_report.py."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from harness.command import hubbub
from harness.warehouse import COMMITTED_AT, write_warehouse
from harness.warehouse_rows import NASTY, NOON, published
from hubbub.cli.pipeline.report import make_report, wording
from hubbub.pipeline.catalogue import TABLES


class Page(HTMLParser):
    """What is in a page: its tags, its addresses and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.code: list[str] = []
        """Scripts and style sheets."""
        self._in_code = False
        self.feed(page)

    @property
    def charts(self) -> dict[str, dict[str, Any]]:
        found = [json.loads(value) for name, value in self.attributes if name == "data-chart"]
        return {each["title"]: each for each in found}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self._in_code = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._in_code = False

    def handle_data(self, data: str) -> None:
        if self._in_code:
            self.code.append(data)
        else:
            self.text += data


@pytest.mark.spec("PIPE-04")
def test_the_page_has_every_part_and_the_figures_of_the_tables(warehouse: Path) -> None:
    page = Page(make_report(warehouse))
    for title in (
        "Traffic",
        "Active over time",
        "Sessions",
        "Latency",
        "Threads and answers",
        "Trending",
        "Exactly-once audit",
        "Delivery success",
        "Forecast",
    ):
        assert title in page.text
    assert "messages in1,242" in page.text  # 7 + 1 + 1000 + 234
    assert "messages out4,321" in page.text
    assert "sessions3" in page.text
    assert "exactly-once faults1of 2 audited" in page.text
    assert "1 threads, 1 of them across" in page.text
    assert {title for title, chart in page.charts.items() if chart["times"]} == {
        *("Messages in", "Messages out", "Bytes in", "Bytes out", "Latency"),
        *("Active sessions", "Active channels", "Active hubs"),
        *("Sessions opened", "Duration, by when they were opened"),
    }


@pytest.mark.spec("PIPE-04")
def test_documents_are_shown_where_there_are_any_and_gaps_are_gaps(tmp_path: Path) -> None:
    changed = {"hub": "acme", "channel": NASTY, "user": "ann", "time": NOON, "changes": 3}
    times = {"first_at": NOON, "last_at": NOON, "version": 7, "bytes": 9, "document_bytes": 1234}
    rows = [published(minutes, 3) for minutes in (0, 5, 10, 40, 45)]
    write_warehouse(tmp_path, {"document_facts": [{**changed, **times}], "messages": rows})
    page = Page(make_report(tmp_path))
    assert "Documents, notifications and pushes" in page.text
    assert "1,234" in page.text
    drawn = page.charts["Messages in"]
    minutes = [(time - NOON.timestamp()) / 60 for time in drawn["times"]]
    assert (minutes, drawn["values"]) == ([0, 5, 10, 40, 45], [[3] * 5])
    assert (drawn["step"], drawn["unit"]) == (300, "count")


@pytest.mark.spec("PIPE-04")
def test_the_page_says_how_good_the_forecast_was(tmp_path: Path) -> None:
    """Two weeks with quiet weekends, which the day before does not foretell."""
    hours = [NOON - timedelta(hours=number) for number in range(14 * 24)]
    rows = [published(0, 20 if time.weekday() >= 5 else 100, at=time) for time in hours]
    write_warehouse(tmp_path, {"messages": rows})
    page = Page(make_report(tmp_path))
    assert re.search(r"off by \d+\.\d % of a mean hour; the same hour yesterday by", page.text)
    assert "It is better than the same hour yesterday" in page.text
    assert "At most 1 nodes are called for" in page.text
    drawn = page.charts["Messages in, by the hour"]
    assert len(drawn["times"]) > 7 * 24
    assert drawn["times"][0] < drawn["now"] < drawn["times"][-1]


@pytest.mark.spec("PIPE-04", "OPS-03")
def test_nothing_from_data_becomes_markup_and_nothing_is_loaded(warehouse: Path) -> None:
    source = make_report(warehouse)
    page = Page(source)
    assert NASTY in page.text
    assert page.tags.count("script") == 1
    policy = next(value for _, value in page.attributes if value.startswith("default-src")).split(
        "; "
    )
    hashes = [b64encode(sha256(code.encode()).digest()).decode() for code in page.code]
    assert [f"style-src 'sha256-{hashes[0]}'", f"script-src 'sha256-{hashes[1]}'"] == policy[2:4]
    assert policy[0] == "default-src 'none'"
    assert not {name for name, _ in page.attributes} & {"src", "href", "style", "onload", "onclick"}
    for code in page.code:
        source = source.replace(code, "")
    assert not re.search(r"https?://|url\(|@import", source)


HOSTILE = (
    NASTY,
    "'><svg onload=hacked()>",
    '"><img src=x onerror=hacked()>',
    "</script><script>hacked()</script>",
    "</title></style><base href=//evil.example>",
    "--><iframe srcdoc=&lt;script&gt;hacked()&lt;/script&gt;>",
    "{{script}}{{body}}{{policy}}",
    "&lt;script&gt;&#60;b&#62;",
    "javascript:hacked()",
    "\\u003cscript\\u003e\u2028<b>",
    "=HYPERLINK(1)\x1b]8;;x\x07",
)


def filled(word: str) -> dict[str, list[dict[str, Any]]]:
    """Rows of a hub and of all hubs, for each table of the pipeline; their texts are the word."""
    at = datetime.fromtimestamp(COMMITTED_AT, UTC)
    parts = {"hour": f"{at:%Y-%m-%dT%H}", "day": f"{at:%Y-%m-%d}", "month": f"{at:%Y-%m}"}
    found = {}
    for name, table in TABLES.items():
        row: dict[str, Any] = {}
        for field in table.schema:
            if pa.types.is_string(field.type):
                row[field.name] = parts.get(field.name, word)
            elif pa.types.is_timestamp(field.type):
                row[field.name] = at
            elif pa.types.is_boolean(field.type):
                row[field.name] = False
            elif pa.types.is_integer(field.type) or pa.types.is_floating(field.type):
                row[field.name] = 1
        kinds = ("channel", "type", "term") if name == "trending" else (row.get("kind"),)
        rows = [{**row, **({"kind": kind} if "kind" in row else {})} for kind in kinds]
        found[name] = [*rows, *({**each, "hub": "*"} for each in rows if "hub" in each)]
    return found


@pytest.mark.spec("PIPE-04", "OPS-03")
@pytest.mark.parametrize("hub", [None, "its own"])
def test_whatever_texts_the_tables_hold_the_page_is_made_of_the_same_elements(
    tmp_path: Path, hub: str | None
) -> None:
    """Names of hubs, channels, users, peers, adapters and documents, and words of messages."""

    def page(word: str) -> Page:
        folder = tmp_path / sha256(word.encode()).hexdigest()[:8]
        write_warehouse(folder, filled(word))
        return Page(make_report(folder, hub and word))

    plain = page("word")
    assert plain.text.count("word") > 20
    for word in HOSTILE:
        hostile = page(word)
        assert hostile.tags == plain.tags, word
        names = [name for name, _ in hostile.attributes]
        assert names == [name for name, _ in plain.attributes], word
        assert hostile.code == plain.code, word
        assert hostile.text.count(word) >= plain.text.count("word"), word


def test_a_report_of_one_hub_has_nothing_of_others(warehouse: Path) -> None:
    page = Page(make_report(warehouse, hub="other"))
    assert "Hub other" in page.text
    assert "messages in1" in page.text
    assert "acme" not in page.text


def test_a_name_that_looks_like_a_place_to_fill_stays_a_name(warehouse: Path) -> None:
    page = Page(make_report(warehouse, hub="{{body}}"))
    assert page.text.count("{{body}}") == 2  # the title, and the title of the window


def test_empty_tables_make_a_page_all_the_same(tmp_path: Path) -> None:
    write_warehouse(tmp_path, {})
    page = Page(make_report(tmp_path))
    assert all(chart["times"] == [] for chart in page.charts.values())
    assert "There is too little history" in page.text


@pytest.mark.spec("PIPE-04")
async def test_the_command_writes_the_page(warehouse: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    done = await hubbub("pipeline", "report", "--out", str(out), "--warehouse", str(warehouse))
    assert (done.code, done.out.startswith(f"wrote {out}")) == (0, True)
    assert out.read_text("utf-8") == make_report(warehouse)
    done = await hubbub("pipeline", "report", "--warehouse", str(tmp_path / "none"))
    assert (done.code, "hubbub pipeline run" in done.err) == (1, True)


@pytest.mark.parametrize(
    ("microseconds", "words"),
    [
        (0, "0 µs"),
        (340, "340 µs"),
        (1024, "1.02 ms"),
        (2_500_000, "2.5 s"),
        (150e6, "2.5 min"),
        (7200e6, "2 h"),
        (3 * 86_400e6, "3 days"),
        (None, "–"),
    ],
)
def test_durations_in_words(microseconds: float | None, words: str) -> None:
    assert wording.duration(microseconds) == words
