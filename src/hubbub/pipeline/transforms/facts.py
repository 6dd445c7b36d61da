"""Facts: partial sums over one segment's rows, which views add up. Needs Arrow only.

Functions take silver rows of one segment, or its events, and return rows of the table with their
name, without the column `segment`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.domain import journal
from hubbub.domain.documents.journal import DOCUMENT_CHANGED
from hubbub.pipeline import spreads
from hubbub.pipeline.columns import (
    HOUR,
    micros,
    ones,
    or_zero,
    peer_of,
    slots,
    starts_of_hours,
    times,
    union,
    with_columns,
)
from hubbub.pipeline.grouping import Groups, Integers
from hubbub.pipeline.transforms.terms import term_counts

_DELIVERED = (
    *("hub", "channel", "technology", "count", "size"),
    *("latency_min", "latency_max", "latency_sum", "latency_squares", "latency_buckets"),
)
_RUN_KEYS = ("kind", "hub", "channel", "epoch", "user", "name", "again", "hour")
_RUN = ("first", "last", "count", "began", "place")


def publish_facts(messages: pa.Table) -> pa.Table:
    rows = with_columns(messages, time=slots(messages["at"]))
    return Groups(rows, ("hub", "channel", "event", "time")).added(
        {"messages": (ones(rows), "sum"), "bytes": (or_zero(rows["size"]), "sum")}
    )


def delivery_facts(deliveries: pa.Table, attempts: pa.Table, receipts: pa.Table) -> pa.Table:
    """Deliveries to live subscribers, webhooks and durable subscriptions. A webhook's latency ends
    with the callback's response, a durable subscription's with the first delivery."""
    rows = union(_measured(deliveries), _notified(attempts), _fetched(receipts))
    groups = Groups(rows, ("hub", "channel", "technology", "time"))
    totals = {"deliveries": rows["count"], "bytes": rows["size"]}
    return spreads.added(rows, groups, "latency", totals)


def _measured(rows: pa.Table) -> pa.Table:
    """Replays are counted, but without a latency."""
    count = pc.if_else(pc.is_valid(rows["latency_min"]), rows["count"], 0)
    return with_columns(rows.select(list(_DELIVERED)), time=slots(rows["at"]), latency_count=count)


def _fetched(receipts: pa.Table) -> pa.Table:
    """Deliveries of durable subscriptions. Those for webhooks have no technology and are excluded
    here: their attempts are counted."""
    handed = pc.and_(
        pc.equal(receipts["kind"], journal.RECEIVED), pc.is_valid(receipts["technology"])
    )
    return _measured(receipts.filter(pc.and_(handed, pc.equal(receipts["delivery"], 1))))


def _notified(attempts: pa.Table) -> pa.Table:
    """Successful attempts of webhooks, each as one delivery."""
    wanted = pc.and_(
        pc.equal(attempts["kind"], journal.WEBHOOK_ATTEMPT), pc.equal(attempts["outcome"], "ok")
    )
    rows = attempts.filter(pc.and_(wanted, pc.is_valid(attempts["published_at"])))
    took = np.maximum(micros(rows["at"]) - micros(rows["published_at"]), 0)
    found = pa.table(
        {
            **{name: rows[name] for name in ("hub", "channel", "technology")},
            "time": slots(rows["at"]),
            "count": ones(rows),
            "size": pa.repeat(0, len(rows)),
            "took": pa.array(took),
        }
    )
    return spreads.of_each(found, "took", "latency").drop_columns(["took"])


def peer_facts(messages: pa.Table, attempts: pa.Table) -> pa.Table:
    """Messages and delivery attempts per peer and hour. Events without a user id belong to no
    peer."""
    wrote = pa.table(
        {
            "hub": messages["hub"],
            "peer": peer_of(messages),
            "time": starts_of_hours(messages["at"]),
            "messages": ones(messages),
            "bytes": or_zero(messages["size"]),
            "first_at": messages["at"],
            "last_at": messages["at"],
        }
    )
    ok = pc.fill_null(pc.equal(attempts["outcome"], "ok"), False).cast(pa.int64())
    sought = pa.table(
        {
            "hub": attempts["hub"],
            "peer": attempts["peer"],
            "time": starts_of_hours(attempts["at"]),
            "attempts": ones(attempts),
            "attempts_ok": ok,
        }
    )
    every = union(wrote, sought)
    every = every.filter(pc.is_valid(every["peer"]))
    counts = ("messages", "bytes", "attempts", "attempts_ok")
    return Groups(every, ("hub", "peer", "time")).added(
        {
            **{name: (or_zero(every[name]), "sum") for name in counts},
            "first_at": (every["first_at"], "min"),
            "last_at": (every["last_at"], "max"),
        }
    )


def term_facts(messages: pa.Table) -> pa.Table:
    """The number of messages that contain each word, by hub and hour."""
    texts = messages.filter(pc.is_valid(messages["payload"])).combine_chunks()
    texts = with_columns(texts, time=starts_of_hours(texts["at"]))
    return term_counts(texts)


def sequence_facts(messages: pa.Table, receipts: pa.Table, drops: pa.Table) -> pa.Table:
    """Runs of consecutive numbers: a producer's sequence (`message.published`), or serials that a
    subscription received, acknowledged or gave up, in chronological order; `again` marks
    redeliveries. `message.dropped` has only a count per session."""
    return union(
        _runs(_published(messages), ("serial", "at", "message_id")),
        _runs(_receipts(receipts), ("at", "segment", "offset")),
        _dropped(drops),
    )


def _published(messages: pa.Table) -> pa.Table:
    rows = messages.filter(
        pc.and_(pc.is_valid(messages["producer"]), pc.is_valid(messages["sequence"]))
    )
    return pa.table(
        {
            "kind": pa.repeat(journal.PUBLISHED, len(rows)),
            **{name: rows[name] for name in ("hub", "channel", "epoch", "user")},
            "name": rows["producer"],
            "again": pa.repeat(False, len(rows)),
            "first": rows["sequence"],
            "last": rows["sequence"],
            "count": ones(rows),
            **{name: rows[name] for name in ("at", "serial", "message_id")},
            "place": rows["serial"],
        }
    )


def _receipts(receipts: pa.Table) -> pa.Table:
    known = pc.and_(pc.is_valid(receipts["serial"]), pc.is_valid(receipts["subscription"]))
    rows = receipts.filter(known)
    first = pc.coalesce(rows["first_serial"], rows["serial"])
    return pa.table(
        {
            **{name: rows[name] for name in ("kind", "hub", "channel", "epoch", "user")},
            "name": rows["subscription"],
            "again": pc.greater(pc.fill_null(rows["delivery"], 1), 1),
            "first": first,
            "last": rows["serial"],
            "count": pc.add(pc.subtract(rows["serial"], first), 1),
            **{name: rows[name] for name in ("at", "segment", "offset")},
            "place": rows["offset"],
        }
    )


def _runs(rows: pa.Table, order: Sequence[str]) -> pa.Table:
    """Runs of numbers; a run ends with its hour."""
    rows = with_columns(rows, hour=pa.array(micros(rows["at"]) // HOUR), began=rows["at"])
    return coalesce_runs(rows, _RUN_KEYS, order).drop_columns(["hour"])


def coalesce_runs(rows: pa.Table, keys: Sequence[str], order: Sequence[str]) -> pa.Table:
    """Runs of numbers; a run ends if the next number is not its successor. Counts without numbers
    are summed."""
    groups = Groups(rows, keys)
    numbered = rows.append_column("_group", pa.array(groups.ids))
    by = [(name, "ascending", "at_start") for name in ("_group", *order)]
    ordered = numbered.take(pc.sort_indices(numbered, by))
    group = ordered["_group"].to_numpy()
    first, last = (pc.fill_null(ordered["first"], 0), pc.fill_null(ordered["last"], -1))
    goes_on = np.zeros(len(rows), bool)
    goes_on[1:] = (group[1:] == group[:-1]) & (first.to_numpy()[1:] == last.to_numpy()[:-1] + 1)
    starts: Integers = np.flatnonzero(~goes_on)
    run = pa.table({"_run": np.cumsum(~goes_on)})
    functions = zip(_RUN, ("min", "max", "sum", "min", "first"), strict=True)
    added = Groups(run, ("_run",)).added({name: (ordered[name], each) for name, each in functions})
    found = groups.keys.take(pa.array(group[starts]))
    return with_columns(found, **{name: added[name] for name in _RUN})


def _dropped(drops: pa.Table) -> pa.Table:
    rows = drops.filter(pc.equal(drops["kind"], journal.DROPPED))
    rows = rows.append_column("name", pc.coalesce(rows["session"], rows["reason"]))
    return Groups(rows, ("kind", "hub", "channel", "name")).added(
        {"count": (pc.fill_null(rows["count"], 1), "sum"), "began": (rows["at"], "min")}
    )


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
