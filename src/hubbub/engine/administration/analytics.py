"""The results of the data pipeline, for services and administrators."""

from __future__ import annotations

from hubbub.domain.analytics import LISTED, Rows, RowsQuery, Table, table_named
from hubbub.engine.node import Node
from hubbub.ports.analytics import Analytics


class AnalyticsAdministration:
    """A hub sees its own rows only; the sum of all hubs (`*`) is not its affair."""

    def __init__(self, node: Node, analytics: Analytics) -> None:
        self._node = node
        self._analytics = analytics

    def tables(self, hub: str | None = None) -> tuple[Table, ...]:
        """Raises `HubNotFound`."""
        if hub is not None:
            self._node.directory.get(hub)
        return LISTED

    async def rows(self, query: RowsQuery) -> Rows:
        """Of all hubs, or of the one that the query names. Raises `NotFound`, `Unavailable`."""
        table_named(query.table)
        return await self._analytics.rows(query)

    async def rows_of_hub(self, query: RowsQuery) -> Rows:
        """Raises `HubNotFound`, `NotFound`, `Unavailable`."""
        assert query.hub is not None
        self._node.directory.get(query.hub)
        return await self.rows(query)
