"""What a view is: a pure function of tables and other views, evaluated when somebody asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import pyarrow as pa

Reach = Literal["hour", "day", "all"]
Sources = Mapping[str, pa.Table]
"""Tables and views by name."""


class Compute(Protocol):
    __name__: str

    def __call__(self, sources: Sources, /) -> pa.Table: ...


@dataclass(frozen=True)
class View:
    """`compute` has the view's name and is pure: from the sources, with the named columns, to rows
    with the columns of `schema` in any order."""

    compute: Compute
    schema: pa.Schema
    sources: Mapping[str, Sequence[str]]
    """Tables or views that are read, and their columns; none named: all."""
    reach: Reach = "all"
    """A row depends only on source rows of its own hour or day, or on any."""
    recent_hours: int | None = None
    """How many hours of the sources matter, counted back from the newest event."""

    @property
    def name(self) -> str:
        return self.compute.__name__

    def evaluate(self, sources: Sources) -> pa.Table:
        chosen = {
            name: sources[name].select(list(columns)) if columns else sources[name]
            for name, columns in self.sources.items()
        }
        return self.compute(chosen).select(self.schema.names).cast(self.schema)
