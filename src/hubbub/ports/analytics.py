"""The port to the tables that the data pipeline makes."""

from __future__ import annotations

from typing import Protocol

from hubbub.domain.analytics import Rows, RowsQuery


class Analytics(Protocol):
    """Reads results. Nothing here computes any: that is the pipeline's affair."""

    async def rows(self, query: RowsQuery) -> Rows:
        """The rows as they were last committed; none if the pipeline never ran.

        Raises `Unavailable` if they cannot be read now, `Overloaded` if too many ask at once."""
        ...
