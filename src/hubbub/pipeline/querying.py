"""Read-only SQL over the tables and views of a snapshot, with DuckDB. Needs no Spark."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

from hubbub.pipeline.errors import QueryRefused
from hubbub.pipeline.models import evaluating
from hubbub.pipeline.models.statements import reads_of, reason
from hubbub.pipeline.tables.rounds import TABLE as ROUNDS
from hubbub.pipeline.tables.rounds import rounds_table
from hubbub.pipeline.tables.snapshot import Snapshot

_RESERVED: Final = re.compile(r"(?<![\w\".])(?:at|offset)(?![\w\"])", re.IGNORECASE)
"""Names of columns that DuckDB takes for words of SQL."""
_SEALED: Final = (
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
"""Restricts a query to the snapshot: no files, no network, no variables of this process."""


def query(snapshot: Snapshot, sql: str) -> pa.RecordBatchReader:
    """Streams the rows; a second column `name` is called `name_1`. Several statements, anything
    except SELECT, and unknown names raise `QueryRefused`."""
    duckdb, connection = evaluating.duckdb(), evaluating.connected()
    try:
        reads = reads_of(connection, sql)
        if reads.beyond:  # it may ask which tables and columns there are
            for name, shape in snapshot.schemas().items():
                connection.register(name, shape.empty_table())
        for name in sorted(reads.names):
            if name in snapshot.names:
                snapshot.defined(connection, name)
            elif name == ROUNDS:
                connection.register(name, rounds_table(snapshot.location))
        for setting in _SEALED:
            connection.execute(setting).fetchall()
        rows: pa.RecordBatchReader = connection.sql(sql).project("*").to_arrow_reader()
    except QueryRefused as error:
        if found := _RESERVED.search(sql):
            raise QueryRefused(
                f"{error.message}; {found[0]} is a word of SQL: write the column in quotes, as in"
                f' max("{found[0]}")'
            ) from error
        raise
    except duckdb.CatalogException as error:
        names = ", ".join((*snapshot.names, ROUNDS))
        raise QueryRefused(f"{reason(error)}; there are: {names}") from error
    except duckdb.Error as error:
        raise QueryRefused(reason(error)) from error
    except RecursionError as error:
        raise QueryRefused("the query is nested too deeply; split it up using WITH") from error
    except RuntimeError as error:
        if str(error) != "Query interrupted":  # how DuckDB says that Ctrl-C came
            raise
        raise KeyboardInterrupt from error
    return rows
