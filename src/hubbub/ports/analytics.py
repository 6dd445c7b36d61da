"""The port to the tables that the data pipeline writes."""

from __future__ import annotations

from typing import Protocol

from hubbub.domain.analytics import Rows, RowsQuery


class Analytics(Protocol):
    """Reads tables; computing them is the pipeline's task."""

    async def rows(self, query: RowsQuery) -> Rows:
        """Returns rows as of the last commit; none if the pipeline never ran.

        Raises `Unavailable` if the tables cannot be read now, `Overloaded` on too many concurrent
        queries.
        """
        ...
