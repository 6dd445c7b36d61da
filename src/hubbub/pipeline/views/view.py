"""What a view is: a pure function of tables and other views, evaluated when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

Reach = Literal["hour", "day", "all"]
Compute = Callable[[Mapping[str, pa.Table]], pa.Table]


@dataclass(frozen=True)
class View:
    """`compute` is pure: from the sources, with the named columns, to rows with the columns of
    `schema` in any order."""

    name: str
    schema: pa.Schema
    sources: Mapping[str, Sequence[str]]
    """Tables or views that are read, and their columns; none named: all."""
    compute: Compute
    reach: Reach = "all"
    """A row depends only on source rows of its own hour or day, or on any."""
    recent_hours: int | None = None
    """How many hours of the sources matter, counted back from the newest event."""

    def evaluate(self, sources: Mapping[str, pa.Table]) -> pa.Table:
        chosen = {
            name: sources[name].select(list(columns)) if columns else sources[name]
            for name, columns in self.sources.items()
        }
        return self.compute(chosen).select(self.schema.names).cast(self.schema)
