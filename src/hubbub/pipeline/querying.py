"""Read-only SQL over the tables and views of a snapshot, with DuckDB. Needs no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa

from hubbub.pipeline.catalogue import TABLES
from hubbub.pipeline.errors import PipelineError, QueryRefused
from hubbub.pipeline.tables.rounds import TABLE as ROUNDS
from hubbub.pipeline.tables.rounds import rounds_table
from hubbub.pipeline.tables.snapshot import Snapshot
from hubbub.pipeline.views import VIEWS

_SEALED: Final = (
    "SET python_enable_replacements = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
"""Restricts a query to the snapshot: no files, no network, no variables of this process."""


def query(snapshot: Snapshot, sql: str) -> pa.RecordBatchReader:
    """Streams the rows; a second column `name` is called `name_1`. Several statements, anything
    except SELECT, and unknown names raise `QueryRefused`."""
    duckdb = _duckdb()
    connection = duckdb.connect()
    try:
        for name in sorted(_tables_of(connection, sql)):
            if name in TABLES:
                connection.register(name, snapshot.table(name))
            elif name in VIEWS:
                connection.register(name, snapshot.read(name))
            elif name == ROUNDS:
                connection.register(name, rounds_table(snapshot.location))
        for setting in _SEALED:
            connection.execute(setting).fetchall()
        rows: pa.RecordBatchReader = connection.sql(sql).project("*").to_arrow_reader()
    except duckdb.CatalogException as error:
        names = ", ".join((*snapshot.names, ROUNDS))
        raise QueryRefused(f"{_reason(error)}; there are: {names}") from error
    except duckdb.Error as error:
        raise QueryRefused(_reason(error)) from error
    except RecursionError as error:
        raise QueryRefused("the query is nested too deeply; split it up using WITH") from error
    except RuntimeError as error:
        if str(error) != "Query interrupted":  # how DuckDB says that Ctrl-C came
            raise
        raise KeyboardInterrupt from error
    return rows


def _tables_of(connection: Any, sql: str) -> set[str]:
    """The names after FROM and JOIN, in lower case. Raises `QueryRefused`."""
    [(text,)] = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    parsed = msgspec.json.decode(text)
    if parsed["error"]:
        raise QueryRefused(f"{parsed['error_message']}; give one SELECT")
    if len(parsed["statements"]) != 1:
        raise QueryRefused(f"there are {len(parsed['statements'])} statements; give one SELECT")
    return {name.lower() for name in _base_tables(parsed["statements"])}


def _base_tables(tree: object) -> Iterator[str]:
    if isinstance(tree, dict):
        if tree.get("type") == "BASE_TABLE":
            yield tree["table_name"]
        tree = list(tree.values())
    if isinstance(tree, list):
        for each in tree:
            yield from _base_tables(each)


def _reason(error: Exception) -> str:
    """DuckDB's message without the excerpt of the query."""
    return " ".join(str(error).split("\n\n")[0].split())


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise PipelineError(
            "duckdb is not installed; install Hubbub with its extra: hubbub[pipeline]"
        ) from None
    return duckdb
