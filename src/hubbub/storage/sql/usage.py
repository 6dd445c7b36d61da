"""Checks and counters of every write: the term of its writer, and the bytes of its hub."""

from __future__ import annotations

from collections.abc import Mapping

from hubbub.domain.errors import StaleOwner
from hubbub.storage.sql.connection import Sql, insert

_COUNT_BYTES = insert(
    "hub_usage",
    {"hub": "text", "stored_bytes": "bigint", "other_bytes": "bigint"},
    "ON CONFLICT (hub) DO UPDATE SET"
    " stored_bytes = hub_usage.stored_bytes + excluded.stored_bytes,"
    " other_bytes = hub_usage.other_bytes + excluded.other_bytes",
)
_NOTHING: Mapping[str, int] = {}
USED_BYTES = "SELECT stored_bytes + other_bytes FROM hub_usage WHERE hub = $1"
PUT_BYTES = 200
"""The estimated size of a stored put that changes a document."""


async def read_terms(sql: Sql, partitions: set[int]) -> dict[int, int]:
    """The current terms. No other node can take these partitions over until the transaction
    ends."""
    rows = await sql.fetch(
        "SELECT partition_id, term FROM partitions WHERE partition_id = ANY($1)"
        " ORDER BY partition_id FOR SHARE",
        list(partitions),
    )
    return dict(rows)


def stale(partition: int, term: int, terms: Mapping[int, int]) -> StaleOwner | None:
    current = terms.get(partition)
    if current == term:
        return None
    owned = "owned by nobody" if current is None else f"owned under term {current} by now"
    return StaleOwner(f"partition {partition} is {owned}; a write under term {term} was refused")


async def check_term(sql: Sql, partition: int, term: int) -> None:
    """Raises `StaleOwner`."""
    refused = stale(partition, term, await read_terms(sql, {partition}))
    if refused is not None:
        raise refused


async def count_bytes(
    sql: Sql, payloads: Mapping[str, int], others: Mapping[str, int] = _NOTHING
) -> None:
    """Adds to the counters by hub. Most tables are counted by triggers (`storage.sql.counting`),
    but not messages' payloads and envelopes. Always in the same order, so that transactions cannot
    deadlock."""
    rows = [(hub, payloads[hub], others.get(hub, 0)) for hub in sorted(payloads)]
    await sql.execute_many(_COUNT_BYTES, rows)


async def used_bytes(sql: Sql, hub: str) -> int:
    """The hub's total size, locked until the transaction ends."""
    rows = await sql.fetch(f"{USED_BYTES} FOR UPDATE", hub)
    return int(rows[0][0]) if rows else 0
