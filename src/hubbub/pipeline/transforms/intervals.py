"""Sessions and subscriptions: rows computed from several events. Needs Arrow only.

Rows contain the events from which they were computed, so a row plus later events gives the same row
as all events at once, in any order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.domain import journal
from hubbub.pipeline.catalogue import EVENT, TABLES
from hubbub.pipeline.columns import TIME
from hubbub.pipeline.grouping import Flags, Groups, Integers, changes, whole

KINDS: Final[dict[str, tuple[str, ...]]] = {
    "sessions": (journal.SESSION_OPENED, journal.SESSION_CLOSED),
    "subscriptions": (journal.SUBSCRIBED, journal.UNSUBSCRIBED),
}
KEYS: Final[dict[str, tuple[str, ...]]] = {
    "sessions": ("hub", "session"),
    "subscriptions": ("hub", "channel", "session"),
}
"""The key columns that group events."""

_NOWHERE: Final = np.iinfo(np.int64).max


Endings = Mapping[str, Sequence[int]]
"""By node, the times in microseconds at which all of its open sessions had ended, in order."""
NODE_GONE: Final = "node_gone"
"""The end reason without an event: the node was restarted, or was lost."""


def rows_of(table: str, events: pa.Table, over: Endings | None = None) -> pa.Table:
    """The rows of `sessions` or `subscriptions`. `events` has the columns of
    `catalogue.SCRATCH["_session_events"]` and contains all events of each key."""
    shape = TABLES[table].schema
    events = events.filter(pc.is_in(events["kind"], pa.array(KINDS[table])))
    if not len(events):
        return shape.empty_table()
    make = _sessions if table == "sessions" else _subscriptions
    rows = make(events, over or {})
    return pa.table(rows).select(shape.names).cast(shape)


class _Spans:
    """Sorted events, and the rows that neighbouring events form."""

    def __init__(self, events: pa.Table, starts: Integers) -> None:
        self.events = events
        self.starts = starts
        self._ends = np.append(starts, len(events))
        self._row = np.repeat(np.arange(len(starts)), np.diff(self._ends))

    def first(self, wanted: Flags) -> Integers:
        """The position of the first marked event of each row, or `_NOWHERE`."""
        found = np.full(len(self.starts), _NOWHERE)
        places = np.flatnonzero(wanted)
        np.minimum.at(found, self._row[places], places)
        return found

    def last(self, wanted: Flags) -> Integers:
        found = np.full(len(self.starts), -1)
        places = np.flatnonzero(wanted)
        np.maximum.at(found, self._row[places], places)
        return np.where(found < 0, _NOWHERE, found)

    def at(self, name: str, places: Integers) -> pa.Array:
        """A field of the events at these positions; null for `_NOWHERE`."""
        nowhere = places == _NOWHERE
        return whole(self.events[name].take(pa.array(np.where(nowhere, 0, places), mask=nowhere)))

    def known(self, name: str) -> pa.Array:
        """The first non-null value among the events of each row."""
        said = pc.is_valid(self.events[name]).to_numpy()
        return self.at(name, self.first(said))

    def gathered(self) -> pa.Array:
        fields = [whole(self.events[name]) for name in EVENT.names]
        each = pa.StructArray.from_arrays(fields, EVENT.names)
        return pa.ListArray.from_arrays(pa.array(self._ends, pa.int32()), each)

    def began(self, places: Integers) -> pa.Array:
        """The begin, computed from the duration in the end event."""
        took = pc.fill_null(self.at("duration", places), 0)
        return pc.subtract(self.at("at", places).cast(pa.int64()), took)

    def row(self, keys: tuple[str, ...], **columns: pa.Array) -> dict[str, pa.Array]:
        return {
            **{name: self.at(name, self.starts) for name in keys},
            **columns,
            "events": self.gathered(),
        }


def _sessions(parts: pa.Table, over: Endings) -> dict[str, pa.Array]:
    events, _, starts = _ordered(parts, KEYS["sessions"], EVENT.names)
    spans = _Spans(events, starts)
    opened = _is(events, journal.SESSION_OPENED)
    first_end, end = spans.first(~opened), spans.last(~opened)
    opened_at = pc.coalesce(
        spans.at("at", spans.first(opened)).cast(pa.int64()), spans.began(first_end)
    )
    ended = spans.at("at", end).cast(pa.int64())
    again = spans.last(opened)
    last_opened = spans.at("at", again).cast(pa.int64())
    is_over = pc.greater_equal(ended, pc.coalesce(last_opened, ended))
    closed_at = pc.if_else(is_over, ended, pa.scalar(None, pa.int64()))
    gone = _gone(spans.at("node", again), last_opened, over)
    said = pc.if_else(pc.is_valid(gone), NODE_GONE, pa.scalar(None, pa.string()))
    reason = pc.if_else(pc.is_valid(closed_at), spans.at("reason", end), said)
    closed_at = pc.coalesce(closed_at, gone)
    return spans.row(
        KEYS["sessions"],
        opened_at=opened_at.cast(TIME),
        closed_at=closed_at.cast(TIME),
        duration=pc.subtract(closed_at, opened_at),
        reason=reason,
        **{name: spans.known(name) for name in ("user", "node", "technology")},
    )


def _gone(nodes: pa.Array, since: pa.Array, over: Endings) -> pa.Array:
    """When a session that was open on a node since some time ended with the node; null if
    unknown."""
    found = [
        moments[place]
        if (moments := over.get(node or ""))
        and at is not None
        and (place := bisect_right(moments, at)) < len(moments)
        else None
        for node, at in zip(nodes.to_pylist(), since.to_pylist(), strict=True)
    ]
    return pa.array(found, pa.int64())


def _subscriptions(parts: pa.Table, over: Endings) -> dict[str, pa.Array]:
    """A start is paired with the end that follows it. A second start ends the first; an end without
    a start forms its own row. A repeated event counts once."""
    ending = pa.array(~_is(parts, journal.SUBSCRIBED))
    order = ("at", "_ending", *EVENT.names[1:])
    events, group, _ = _ordered(
        parts.append_column("_ending", ending), KEYS["subscriptions"], order
    )
    at, ends = events["at"].cast(pa.int64()).to_numpy(), events["_ending"].to_numpy()
    moments = np.flatnonzero(changes(group) | changes(at) | changes(ends))
    is_end, begins_group = ends[moments], changes(group[moments])
    after_end = np.concatenate(([True], is_end[:-1])) | begins_group
    leads = np.flatnonzero(~is_end | after_end)
    spans = _Spans(events, moments[leads])
    # What follows a row's first moment within its group: its end, or the start that ends it.
    following = np.append(moments, _NOWHERE)[leads + 1]
    last = np.append(begins_group, True)[leads + 1]
    alone = is_end[leads]
    ended = np.where(alone, moments[leads], np.where(last, _NOWHERE, following))
    ended_at = spans.at("at", ended).cast(pa.int64())
    since = spans.at("at", spans.starts).cast(pa.int64())
    ended_at = pc.coalesce(ended_at, _gone(spans.at("node", spans.starts), since, over))
    started_at = pc.if_else(pa.array(alone), spans.began(spans.starts), since)
    return spans.row(
        KEYS["subscriptions"],
        started_at=started_at.cast(TIME),
        ended_at=ended_at.cast(TIME),
        duration=pc.subtract(ended_at, started_at),
        **{name: spans.known(name) for name in ("user", "node")},
    )


def _ordered(
    parts: pa.Table, keys: tuple[str, ...], order: tuple[str, ...] | list[str]
) -> tuple[pa.Table, Integers, Integers]:
    """Sorts events by key; returns them, their group numbers, and the positions where groups
    begin."""
    numbered = parts.append_column("_group", pa.array(Groups(parts, keys).ids))
    by = [(name, "ascending", "at_start") for name in ("_group", *order)]
    events = numbered.take(pc.sort_indices(numbered, by))
    group: Integers = events["_group"].to_numpy()
    return events, group, np.flatnonzero(changes(group))


def _is(events: pa.Table, kind: str) -> Flags:
    found: Flags = pc.equal(events["kind"], kind).to_numpy()
    return found
