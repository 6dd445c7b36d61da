"""Facts: sums over one segment's events of which there are no silver rows. Models add them up.

Functions take messages of one segment, or its events, and return rows of the table with their name,
without the column `segment`. Needs Arrow only.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from hubbub.domain import journal
from hubbub.domain.documents.journal import DOCUMENT_CHANGED
from hubbub.pipeline import spreads
from hubbub.pipeline.columns import (
    ones,
    or_zero,
    starts_of_hours,
    times,
    with_columns,
)
from hubbub.pipeline.grouping import Groups
from hubbub.pipeline.transforms.terms import term_counts


def term_facts(messages: pa.Table) -> pa.Table:
    """The number of messages that contain each word, by hub and hour."""
    texts = messages.filter(pc.is_valid(messages["payload"])).combine_chunks()
    texts = with_columns(texts, time=starts_of_hours(texts["at"]))
    return term_counts(texts)


def document_facts(events: pa.Table) -> pa.Table:
    """Changes of each document by author and hour. `version` and `document_bytes` are those of the
    hour's last change."""
    rows = events.filter(pc.equal(events["kind"], DOCUMENT_CHANGED))
    rows = rows.sort_by([("at", "ascending"), ("serial", "ascending")])
    size = pc.map_lookup(rows["extra"].combine_chunks(), "documentBytes", "first")
    is_number = pc.fill_null(pc.match_substring_regex(size, "^[0-9]{1,18}$"), False)
    size = pc.if_else(is_number, size, pa.scalar(None, pa.string())).cast(pa.int64())
    rows = with_columns(rows, time=starts_of_hours(rows["at"]))
    return Groups(rows, ("hub", "channel", "user", "time")).added(
        {
            "changes": (ones(rows), "sum"),
            "bytes": (or_zero(rows["size"]), "sum"),
            "version": (rows["serial"], "last"),
            "document_bytes": (size, "last"),
            "first_at": (times(rows["at"]), "min"),
            "last_at": (times(rows["at"]), "max"),
        }
    )


def notification_facts(events: pa.Table) -> pa.Table:
    """Counts by the hour in which notifications were created, even if they were read much later."""
    rows = events.filter(
        pc.is_in(
            events["kind"], pa.array([journal.NOTIFICATION_CREATED, journal.NOTIFICATION_READ])
        )
    )
    created = pc.equal(rows["kind"], journal.NOTIFICATION_CREATED)
    rows = with_columns(rows, time=starts_of_hours(pc.coalesce(rows["published_at"], rows["at"])))
    rows = spreads.of_each(rows, "duration", "read")
    totals = {"created": created.cast(pa.int64())}
    return spreads.added(rows, Groups(rows, ("hub", "time")), "read", totals)


def push_facts(events: pa.Table) -> pa.Table:
    """Push attempts by platform, outcome and hour."""
    rows = events.filter(pc.equal(events["kind"], journal.PUSH_ATTEMPT))
    rows = with_columns(rows, platform=rows["technology"], time=starts_of_hours(rows["at"]))
    rows = spreads.of_each(rows, "duration", "duration")
    groups = Groups(rows, ("hub", "platform", "outcome", "time"))
    return spreads.added(rows, groups, "duration", {"attempts": ones(rows)})
