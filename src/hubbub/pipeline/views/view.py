"""The definition of a view: a pure function of tables and other views, evaluated on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

Sources = Mapping[str, pa.Table]
"""Tables and views by name."""
Compute = Callable[[Sources], pa.Table]


@dataclass(frozen=True)
class View:
    """`compute` is pure: it converts the sources, with the named columns, to rows with the columns
    of `schema` in any order."""

    name: str
    compute: Compute
    schema: pa.Schema
    sources: Mapping[str, Sequence[str]]
    """The tables or views that it reads, and their columns; an empty list means all."""
    recent_hours: int | None = None
    """How many hours of the sources are relevant, counted back from the newest event."""

    def evaluate(self, sources: Sources) -> pa.Table:
        chosen = {
            name: sources[name].select(list(columns)) if columns else sources[name]
            for name, columns in self.sources.items()
        }
        return self.compute(chosen).select(self.schema.names).cast(self.schema)


def view(
    shape: pa.Schema,
    recent_hours: int | None = None,
    **sources: str | Sequence[str],
) -> Callable[[Compute], View]:
    """Declares a function as the view with its name. Columns may be listed in one text."""
    read = {name: each.split() if isinstance(each, str) else each for name, each in sources.items()}
    return lambda compute: View(compute.__name__, compute, shape, read, recent_hours)
