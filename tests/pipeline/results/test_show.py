"""Rows of the tables, by the reader and by the command."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.command import hubbub
from hubbub.domain.analytics import LISTED, QUARANTINE, TABLES, RowsQuery
from hubbub.domain.errors import NotFound
from hubbub.pipeline.models import MODELS
from hubbub.pipeline.results import read_rows
from hubbub.pipeline.views import VIEWS


def at(hour: int, minute: int = 0) -> float:
    return datetime(2026, 11, 2, hour, minute, tzinfo=UTC).timestamp()


@pytest.mark.spec("PIPE-04")
def test_rows_come_newest_first_and_by_hub_and_time(warehouse: Path) -> None:
    def found(**query: object) -> list[tuple[str, int]]:
        answer = read_rows(warehouse, RowsQuery("traffic", **query))  # type: ignore[arg-type]
        return [(row["hub"], row["messages_in"]) for row in answer.rows]

    assert found() == [("acme", 234), ("acme", 1000), ("acme", 7), ("other", 1)]
    assert found(hub="other") == [("other", 1)]
    assert found(since=at(12)) == [("acme", 234), ("acme", 1000)]
    assert found(until=at(12)) == [("acme", 7), ("other", 1)]
    assert found(since=at(12), until=at(12, 5)) == [("acme", 1000)]
    assert found(since=-1e12, until=1e12) == found()
    assert found(limit=1) == [("acme", 234)]
    assert read_rows(warehouse, RowsQuery("traffic", limit=1)).more
    assert not read_rows(warehouse, RowsQuery("traffic", limit=4)).more


def test_days_and_hours_as_text_can_be_asked_for_by_time(warehouse: Path) -> None:
    day = RowsQuery("adapter_success", since=at(0), until=at(23, 59))
    assert [row["day"] for row in read_rows(warehouse, day).rows] == ["2026-11-02"]
    assert not read_rows(warehouse, RowsQuery("adapter_success", until=at(0) - 1)).rows


def test_what_only_serves_to_add_up_is_not_shown(warehouse: Path) -> None:
    columns = read_rows(warehouse, RowsQuery("traffic")).columns
    assert "latency_p99" in columns
    assert not {"latency_buckets", "latency_sum", "latency_squares"} & set(columns)
    assert columns[-1] == "hour"


def test_a_table_that_is_none_is_answered_with_those_that_there_are(warehouse: Path) -> None:
    with pytest.raises(NotFound, match=r"no table 'trafic'; there are activity, .*traffic"):
        read_rows(warehouse, RowsQuery("trafic"))


def test_a_folder_without_tables_has_no_rows(tmp_path: Path) -> None:
    answer = read_rows(tmp_path / "nothing", RowsQuery("traffic"))
    assert (answer.rows, answer.computed_at) == ([], None)


@pytest.mark.spec("PIPE-04")
async def test_the_command_shows_a_table_csv_and_json(warehouse: Path) -> None:
    there = ("--warehouse", str(warehouse))
    shown = await hubbub("pipeline", "show", "traffic", *there)
    lines = shown.out.splitlines()
    assert lines[0].split()[:4] == ["HUB", "TIME", "MESSAGES", "IN"]
    assert lines[2].startswith("acme   2026-11-02 12:00:00         1000")
    assert "1.02 ms" in lines[2]

    shown = await hubbub("pipeline", "show", "traffic", "--format", "csv", "--limit", "1", *there)
    (row,) = csv.DictReader(io.StringIO(shown.out))
    assert (row["time"], row["messages_in"]) == ("2026-11-02T12:05:00+00:00", "234")

    shown = await hubbub("pipeline", "show", "audit", "--format", "json", "--hub", "acme", *there)
    assert [json.loads(line)["verdict"] for line in shown.out.splitlines()] == [
        "lost",
        "exactly once",
    ]


async def test_the_command_names_what_is_wrong(warehouse: Path, tmp_path: Path) -> None:
    there = ("--warehouse", str(warehouse))
    shown = await hubbub("pipeline", "show", "nope", *there)
    assert (shown.code, shown.out) == (2, "")
    assert "there is no table 'nope'; there are activity" in shown.err
    shown = await hubbub("pipeline", "show", "traffic", "--warehouse", str(tmp_path / "none"))
    assert shown.code == 1
    assert "make them with `hubbub pipeline run`" in shown.err
    next((warehouse / "audit").glob("*.parquet")).write_bytes(b"nonsense")
    shown = await hubbub("pipeline", "show", "audit", *there)
    assert (shown.code, "table audit is damaged" in shown.err) == (1, True)
    shown = await hubbub("pipeline", "show")
    assert [line.split()[0] for line in shown.out.splitlines()[1:]] == [t.name for t in LISTED]


@pytest.mark.spec("PIPE-04")
def test_looking_needs_neither_spark_nor_java(warehouse: Path) -> None:
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from hubbub.cli.main import main\n"
        f"main(['pipeline', 'show', 'traffic', '--warehouse', {str(warehouse)!r}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PATH": "/nonexistent"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "acme" in done.stdout


def test_the_catalogue_has_every_table_with_its_columns_of_order() -> None:
    for entry in TABLES:
        columns = set((MODELS.get(entry.name) or VIEWS[entry.name]).schema.names)
        named = {name.removeprefix("-") for name in entry.order}
        assert named | ({entry.time} - {None}) <= columns, entry.name
        assert "hub" in columns
    assert QUARANTINE in LISTED
