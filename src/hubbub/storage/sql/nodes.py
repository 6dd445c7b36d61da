"""Which nodes of a cluster reach the database."""

from __future__ import annotations

from hubbub.storage.sql.connection import Sql


class NodeWrites:
    """Part of `Writes`; runs in its transactions."""

    _sql: Sql

    async def count_beat(self, node: str) -> dict[str, int]:
        await self._sql.execute(
            "INSERT INTO nodes (name, beats) VALUES ($1, 1)"
            " ON CONFLICT (name) DO UPDATE SET beats = nodes.beats + 1",
            node,
        )
        rows = await self._sql.fetch("SELECT name, beats FROM nodes")
        return {str(name): int(beats) for name, beats in rows}

    async def forget_node(self, node: str) -> None:
        await self._sql.execute("DELETE FROM nodes WHERE name = $1", node)
