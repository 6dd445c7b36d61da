"""Warehouses in other stores, and other programs that read their tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import polars
import pytest
from deltalake import DeltaTable

from harness.object_store import BUCKET, azure_store
from harness.warehouse import write_warehouse
from harness.warehouse_rows import published
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.tables.rounds import DONE, all_rounds
from hubbub.pipeline.tables.snapshot import open_snapshot

pytestmark = pytest.mark.spec("PIPE-07")


@pytest.fixture
def azure(monkeypatch: pytest.MonkeyPatch) -> Iterator[Location]:
    with azure_store() as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        place = Location(f"az://{BUCKET}/warehouse")
        files, _ = place.open()
        files.create_dir(BUCKET)
        yield place


def test_a_warehouse_in_azure_is_written_and_read(azure: Location) -> None:
    """One round: Azurite does not know the parameter `startFrom` of Azure's lists, with which
    `deltalake` looks for versions beyond the second."""
    write_warehouse(azure, {"messages": [published(0, 1), published(5, 6)]})
    assert sorted(open_snapshot(azure).read("traffic")["messages_in"].to_pylist()) == [1, 6]
    assert [one.state for one in all_rounds(azure)] == [DONE]


@pytest.fixture
def table(tmp_path: Path) -> str:
    write_warehouse(tmp_path, {"messages": [published(0, 3), published(5, 4)]})
    return str(tmp_path / "traffic")


def test_duckdb_opens_a_table_as_any_delta_reader(table: str) -> None:
    traffic = DeltaTable(table).to_pyarrow_dataset()
    assert traffic.count_rows() == 2
    with duckdb.connect() as connection:
        found = connection.execute("SELECT sum(messages_in)::BIGINT FROM traffic")
        assert found.fetchall() == [(7,)]


def test_polars_opens_a_table(table: str) -> None:
    traffic = polars.scan_delta(table).select(polars.col("messages_in").sum()).collect()
    assert traffic["messages_in"].to_list() == [7]
