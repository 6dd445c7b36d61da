"""Results of the data pipeline, for services and administrators."""

from __future__ import annotations

from collections.abc import Callable

from hubbub.domain.analytics import LISTED, Rows, RowsQuery, Table, table_named
from hubbub.domain.errors import BadRequest, Overloaded, Unavailable
from hubbub.engine.administration.views import DataState, JournalState
from hubbub.engine.node import Node
from hubbub.ports.analytics import Analytics


class AnalyticsAdministration:
    """A hub may read only its own rows, not those of all hubs (`*`)."""

    def __init__(
        self, node: Node, analytics: Analytics, journal: Callable[[], JournalState | None]
    ) -> None:
        """`journal` returns None if the server keeps no journal."""
        self._node = node
        self._analytics = analytics
        self._journal = journal

    def tables(self, hub: str | None = None) -> tuple[Table, ...]:
        """Raises `HubNotFound`."""
        if hub is not None:
            self._node.directory.get(hub)
        return LISTED

    async def rows(self, query: RowsQuery) -> Rows:
        """Rows of all hubs, or of the hub in the query. Raises `NotFound`, `BadRequest`,
        `Unavailable`."""
        table = table_named(query.table)
        if query.step_seconds and not (table.counts or table.levels):
            joined = ", ".join(each.name for each in LISTED if each.counts or each.levels)
            raise BadRequest(f"the rows of {table.name} cannot be joined; `step` is for {joined}")
        return await self._analytics.rows(query)

    async def state(self) -> DataState:
        """The state of the journal and the pipeline."""
        computed_at, problem = None, None
        try:
            found = await self._analytics.rows(RowsQuery(LISTED[0].name, limit=1))
            computed_at = None if found.computed_at is None else int(found.computed_at * 1000)
        except (Unavailable, Overloaded) as error:
            problem = error.message
        return DataState(self._journal(), computed_at, problem)

    async def rows_of_hub(self, query: RowsQuery) -> Rows:
        """Raises `HubNotFound`, `NotFound`, `Unavailable`."""
        assert query.hub is not None
        self._node.directory.get(query.hub)
        return await self.rows(query)
