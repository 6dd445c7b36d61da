"""Silver rows: events of some kinds with their relevant columns. Needs Arrow only."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from hubbub.domain import journal
from hubbub.domain.communication.messages import RESERVED_TYPES
from hubbub.domain.names import COMMUNICATION_LOG
from hubbub.pipeline.catalogue import SCRATCH, TABLES
from hubbub.pipeline.columns import TIME, peer_of
from hubbub.pipeline.transforms.intervals import KINDS as INTERVALS

KINDS: Final[dict[str, tuple[str, ...]]] = {
    "messages": (journal.PUBLISHED,),
    "deliveries": (journal.DELIVERED,),
    "receipts": (journal.RECEIVED, journal.ACKNOWLEDGED, journal.EXPIRED, journal.DEAD_LETTERED),
    "attempts": (journal.WEBHOOK_ATTEMPT, journal.ADAPTER_ATTEMPT),
    "verdicts": (journal.POLICY_VERDICT,),
    "drops": (journal.DROPPED, journal.TELEMETRY_LOST),
    "_session_events": tuple(kind for kinds in INTERVALS.values() for kind in kinds),
}
"""The tables with one row per event, and their kinds of events."""


def rows_of(table: str, events: pa.Table) -> pa.Table:
    """The rows of a table for these events."""
    shape = {**TABLES, **SCRATCH}[table].schema
    wanted = pc.is_in(events["kind"], pa.array(KINDS[table]))
    chosen = events.select(shape.names).filter(wanted)
    columns = [
        chosen[field.name].cast(pa.int64()).cast(TIME) if field.type == TIME else chosen[field.name]
        for field in shape
    ]
    return pa.Table.from_arrays(columns, schema=shape)


def links(messages: pa.Table) -> pa.Table:
    """The messages that belong to a conversation or refer to another message. The hub's reports on
    messages to peers, and its responses about types and logins, do not count as replies."""
    linked = pc.or_(pc.is_valid(messages["conversation_id"]), pc.is_valid(messages["refers_to"]))
    logged = pc.equal(messages["channel"], COMMUNICATION_LOG)
    report = pc.and_(logged, pc.is_in(messages["event"], pa.array(sorted(RESERVED_TYPES))))
    linked = pc.and_not(linked, pc.fill_null(report, False))
    rows = messages.filter(linked)
    return rows.append_column("peer", peer_of(rows)).select(SCRATCH["_links"].schema.names)
