"""Evaluates models with DuckDB, in this process. Needs no Spark."""

from __future__ import annotations

import os
import tempfile
from typing import Any, Final

from hubbub.pipeline.errors import PipelineError
from hubbub.pipeline.models import prelude

_SETTINGS: Final = (
    "SET TimeZone = 'UTC'",
    "SET memory_limit = '2GB'",
    f"SET temp_directory = '{tempfile.gettempdir()}/hubbub-duckdb-{os.getpid()}'",
    "SET python_enable_replacements = false",
)


def connected() -> Any:
    """A connection to an empty database with the functions of models."""
    connection = duckdb().connect()
    for statement in (*_SETTINGS, *prelude("duckdb")):
        connection.execute(statement).fetchall()
    return connection


def duckdb() -> Any:
    """The module; raises `PipelineError` if it is not installed."""
    try:
        import duckdb
    except ImportError:
        raise PipelineError(
            "duckdb is not installed; install Hubbub with its extra: hubbub[pipeline]"
        ) from None
    return duckdb
