"""Options of the data sources that select columns and rows.

Spark does not tell a Python source which columns a query needs. It can push filters down
(`pushFilters`), but applies them to all queries of the same frame: `frame.where("hub =
'a'").count()` and a subsequent `frame.count()` returned the same number in Spark 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from hubbub.pipeline.errors import PipelineError
from hubbub.pipeline.partitions import micros
from hubbub.pipeline.tables.snapshot import Window


@dataclass(frozen=True)
class Pruning:
    """The selected columns (`schema`), time range and hub; None selects all."""

    schema: pa.Schema
    window: Window
    hub: str | None
    most: int
    """The most segments in one micro-batch of a stream."""
    round: int | None = None
    """The round at which a table is read; None: the last one."""


def pruning(options: Mapping[str, str], schema: pa.Schema) -> Pruning:
    """Reads the options `columns` (separated by commas), `since`, `until`, `hub`, `round`, and for
    streams `maxFilesPerTrigger`. Raises `PipelineError`, also if neither `path` nor `files` is
    given. Call it when the schema is requested: Spark hides errors raised while the reader of a
    stream is created."""
    if options.keys().isdisjoint(("path", "files")):
        raise PipelineError("no path is given; load(path) takes the folder or URL to read")
    columns = [name.strip() for name in options.get("columns", "").split(",") if name.strip()]
    if unknown := [name for name in columns if name not in schema.names]:
        known = ", ".join(schema.names)
        raise PipelineError(f"there is no column {unknown[0]!r}; there are {known}")
    window = Window(_time(options, "since"), _time(options, "until"))
    wanted = pa.schema([schema.field(name) for name in columns]) if columns else schema
    most, number = _count(options, "maxFilesPerTrigger") or 64, _count(options, "round")
    return Pruning(wanted, window, options.get("hub"), most, number)


def _count(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.isdecimal() or int(text) == 0:
        raise PipelineError(f"{name} {text!r} is no number; give 1 or more")
    return int(text)


def _time(options: Mapping[str, str], name: str) -> int | None:
    if name not in options:
        return None
    try:
        return micros(datetime.fromisoformat(options[name]))
    except ValueError as error:
        raise PipelineError(
            f"{name} {options[name]!r} is no time; give one in ISO 8601, such as"
            f" {datetime.now(UTC):%Y-%m-%dT%H:%MZ}"
        ) from error
