"""Analysts ask the tables in SQL, read only, and every other Delta reader opens them too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.invoking import invoke
from hubbub.pipeline.catalogue import TABLES
from hubbub.pipeline.errors import QueryRefused
from hubbub.pipeline.models import MODELS, fingerprints
from hubbub.pipeline.querying import query
from hubbub.pipeline.tables.commits import commit
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.tables.rounds import RoundLock, versions
from hubbub.pipeline.tables.snapshot import Snapshot, open_snapshot
from hubbub.pipeline.tables.staging import Stage

pytestmark = pytest.mark.spec("PIPE-04", "PIPE-07")
NOON = 1_794_744_000_000_000


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """Two hubs: `demo` published 3 and 4 messages, `shop` 5."""
    warehouse = Location(tmp_path_factory.mktemp("queried") / "warehouse")
    schema = TABLES["term_facts"].schema
    plain = pa.schema([(f.name, pa.int64() if f.name == "time" else f.type) for f in schema])
    rows = [
        {"hub": hub, "term": "news", "messages": count, "time": NOON}
        for hub, count in (("demo", 3), ("demo", 4), ("shop", 5))
    ]
    stage = Stage(str(warehouse), "first")
    stage.add("term_facts", pa.Table.from_pylist(rows, plain).cast(schema))
    rounds = RoundLock(warehouse)
    with rounds.running(lambda: NOON) as mine:
        commit(warehouse, "term_facts", mine.round, stage.close())
        rounds.finish(versions=versions(warehouse), models=fingerprints())
    return open_snapshot(warehouse)


def test_a_table_is_asked_in_sql(snapshot: Snapshot) -> None:
    sql = "SELECT hub, sum(messages)::BIGINT AS n FROM term_facts GROUP BY hub ORDER BY hub"
    rows = query(snapshot, sql).read_all()
    assert rows.to_pylist() == [{"hub": "demo", "n": 7}, {"hub": "shop", "n": 5}]


def test_tables_and_views_are_joined_whatever_their_case(snapshot: Snapshot) -> None:
    sql = (
        "WITH all_hubs AS (SELECT DISTINCT hub FROM Term_Facts)"
        " SELECT count(*) AS n FROM all_hubs JOIN terms USING (hub)"
    )
    assert query(snapshot, sql).read_all().column_names == ["n"]


def test_rounds_can_be_asked_about(snapshot: Snapshot) -> None:
    sql = "SELECT round, state, versions['term_facts'] AS version FROM rounds"
    assert query(snapshot, sql).read_all().to_pylist() == [
        {"round": 1, "state": "done", "version": 1}
    ]


def test_tables_and_their_columns_are_listed(snapshot: Snapshot) -> None:
    tables = query(snapshot, "SHOW TABLES").read_all()["name"].to_pylist()
    assert set(tables) == set(snapshot.names)
    sql = (
        "SELECT column_name FROM information_schema.columns WHERE table_name = 'replies'"
        " ORDER BY ordinal_position"
    )
    columns = query(snapshot, sql).read_all()["column_name"].to_pylist()
    assert columns == MODELS["replies"].schema.names
    described = query(snapshot, "DESCRIBE forecast").read_all()["column_name"].to_pylist()
    assert described[:3] == ["hub", "time", "held_back"]


@pytest.mark.parametrize("sql", ["SELECT max(at) FROM messages", "SELECT offset FROM messages"])
def test_a_column_whose_name_is_a_word_of_sql_is_named_with_the_remedy(
    snapshot: Snapshot, sql: str
) -> None:
    name = "at" if "at)" in sql else "offset"
    with pytest.raises(QueryRefused) as refused:
        query(snapshot, sql)
    assert f'{name} is a word of SQL: write the column in quotes, as in max("{name}")' in (
        refused.value.message
    )


@pytest.mark.parametrize("name", ["audit", "threads", "messages", "quarantine"])
def test_what_nothing_was_written_to_is_empty(snapshot: Snapshot, name: str) -> None:
    found = query(snapshot, f"SELECT count(*) AS n FROM {name}").read_all()
    assert found["n"].to_pylist() == [0]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("DROP TABLE term_facts", "give one SELECT"),
        ("SELECT 1; SELECT 2", "there are 2 statements"),
        ("", "there are 0 statements"),
        ("COPY (SELECT 1) TO 'stolen.csv'", "give one SELECT"),
        ("SET lock_configuration = false", "give one SELECT"),
        ("SELEC 1", "syntax error"),
        (f"SELECT {'(' * 400}1{'+1)' * 400}", "nested too deeply"),
        ("SELECT * FROM nowhere", "there are: messages"),
        ("SELECT nothing FROM term_facts", "nothing"),
        ("SELECT * FROM read_csv('/etc/hostname')", "disabled"),
        ("SELECT * FROM '/etc/hostname'", "hostname"),
        ("SELECT * FROM snapshot", "there are: messages"),
    ],
)
def test_anything_but_a_question_about_the_tables_is_refused(
    snapshot: Snapshot, sql: str, reason: str
) -> None:
    with pytest.raises(QueryRefused) as refused:
        query(snapshot, sql).read_all()
    assert reason in refused.value.message
    assert "\n" not in refused.value.message
    assert not Path("stolen.csv").exists()


async def test_the_command_answers_exports_and_says_how_far_the_tables_are(
    snapshot: Snapshot, tmp_path: Path
) -> None:
    where = ("--warehouse", str(snapshot.location))
    sql = "SELECT hub, sum(messages)::BIGINT AS n FROM term_facts GROUP BY hub ORDER BY hub"
    asked = await invoke("pipeline", "sql", sql, *where)
    assert asked.code == 0, asked.err
    assert [line.split() for line in asked.out.splitlines()] == [
        ["hub", "n"],
        ["demo", "7"],
        ["shop", "5"],
    ]
    refused = await invoke("pipeline", "sql", "DROP TABLE term_facts", *where)
    assert refused.code == 1
    for name in ("facts.csv", "facts.parquet"):
        exported = await invoke("pipeline", "export", "term_facts", str(tmp_path / name), *where)
        assert "wrote 3 rows" in exported.out
    assert pq.read_table(tmp_path / "facts.parquet")["messages"].to_pylist() == [3, 4, 5]
    assert (tmp_path / "facts.csv").read_text().count("\n") == 4
    status = await invoke("pipeline", "status", "--json", *where)
    assert json.loads(status.out)["round"] == 1
    missing = await invoke("pipeline", "status", "--warehouse", str(tmp_path / "nowhere"))
    assert (missing.code, "hubbub pipeline run" in missing.err) == (1, True)


@pytest.mark.parametrize("form", ["table", "csv", "json"])
async def test_columns_of_the_same_name_are_told_apart(snapshot: Snapshot, form: str) -> None:
    sql = "SELECT 1 AS hub, 2 AS hub"
    where = ("--warehouse", str(snapshot.location), "--format", form)
    asked = await invoke("pipeline", "sql", sql, *where)
    assert asked.code == 0, asked.err
    assert (
        asked.out.split()
        == {
            "table": ["hub", "hub_1", "1", "2"],
            "csv": ["hub,hub_1", "1,2"],
            "json": ['{"hub":1,"hub_1":2}'],
        }[form]
    )


@pytest.mark.parametrize("form", ["table", "csv", "json"])
async def test_a_time_beyond_the_calendar_is_refused_in_one_line(
    snapshot: Snapshot, form: str
) -> None:
    where = ("--warehouse", str(snapshot.location), "--format", form)
    asked = await invoke("pipeline", "sql", "SELECT 'infinity'::TIMESTAMP AS t", *where)
    assert (asked.code, asked.err.count("\n")) == (1, 1)
    assert "the column t holds a time" in asked.err


def test_an_interrupted_query_ends_as_an_interruption(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("Query interrupted")

    connect = duckdb.connect

    def connecting() -> Any:
        connection = MagicMock(wraps=connect())
        connection.sql.side_effect = lambda sql: Interrupted()
        return connection

    monkeypatch.setattr(duckdb, "connect", connecting)
    with pytest.raises(KeyboardInterrupt):
        query(snapshot, "SELECT 1")
