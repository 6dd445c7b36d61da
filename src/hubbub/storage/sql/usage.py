"""What every write checks and counts: the term of its writer, and the bytes of its hub."""

from __future__ import annotations

from collections.abc import Mapping

from hubbub.domain.errors import StaleOwner
from hubbub.storage.sql.connection import Sql, insert

_COUNT_BYTES = insert(
    "hub_usage",
    {"hub": "text", "stored_bytes": "bigint"},
    "ON CONFLICT (hub) DO UPDATE SET stored_bytes = hub_usage.stored_bytes + excluded.stored_bytes",
)


async def read_terms(sql: Sql, partitions: set[int]) -> dict[int, int]:
    """The current terms. Until the transaction ends nobody can take these partitions over."""
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


async def count_bytes(sql: Sql, changes: Mapping[str, int]) -> None:
    """Always in the same order, so that transactions never wait for each other in a circle."""
    await sql.execute_many(_COUNT_BYTES, sorted(changes.items()))
