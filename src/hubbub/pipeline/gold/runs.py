"""Unbroken runs of numbers: what producers put and what durable subscriptions were handed.

Almost always one run for each producer and hour, so that `audit` has little to read and is exact
all the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.domain.journal import DROPPED, PUBLISHED
from hubbub.pipeline.gold.adding import together
from hubbub.pipeline.gold.columns import FLAG, TEXT, TIME, WHOLE, schema
from hubbub.pipeline.gold_tables import arrow_table
from hubbub.pipeline.grouping import Groups

SCHEMA = schema(
    kind=TEXT,
    hub=TEXT,
    channel=TEXT,
    epoch=TEXT,
    user=TEXT,
    name=TEXT,
    again=FLAG,
    first=WHOLE,
    last=WHOLE,
    count=WHOLE,
    began=TIME,
    place=WHOLE,
    hour=TEXT,
)
_KEYS = ("kind", "hub", "channel", "epoch", "user", "name", "again")
_NUMBERS = ("first", "last", "count", "at", "place")


def compute(sources: Mapping[str, pa.Table], _hour: str) -> pa.Table:
    """`first` to `last` are sequences of a producer (`message.published`), or serials that a
    subscription was handed, finished or gave up, in the order in which it happened; `again` marks
    what was handed out before. `message.dropped` has only a count, for each session."""
    return together(
        _runs(_published(sources["messages"]), ("serial", "at", "message_id")),
        _runs(_receipts(sources["receipts"]), ("at", "segment", "offset")),
        _dropped(sources["drops"]),
    )


def _published(messages: pa.Table) -> pa.Table:
    rows = messages.filter(
        pc.and_(pc.is_valid(messages["producer"]), pc.is_valid(messages["sequence"]))
    )
    return pa.table(
        {
            "kind": pa.repeat(PUBLISHED, len(rows)),
            **{name: rows[name] for name in ("hub", "channel", "epoch", "user")},
            "name": rows["producer"],
            "again": pa.repeat(False, len(rows)),
            "first": rows["sequence"],
            "last": rows["sequence"],
            "count": pa.repeat(1, len(rows)),
            **{name: rows[name] for name in ("at", "serial", "message_id")},
            "place": rows["serial"],
        }
    )


def _receipts(receipts: pa.Table) -> pa.Table:
    rows = receipts.filter(pc.is_valid(receipts["serial"]))
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
    """A run ends where the next number is not the one that follows."""
    groups = Groups(rows, _KEYS)
    numbered = rows.append_column("_group", pa.array(groups.ids))
    by = [(name, "ascending", "at_start") for name in ("_group", *order)]
    ordered = numbered.take(pc.sort_indices(numbered, by))
    group, first = ordered["_group"].to_numpy(), ordered["first"].to_numpy()
    goes_on = np.zeros(len(rows), bool)
    goes_on[1:] = (group[1:] == group[:-1]) & (first[1:] == ordered["last"].to_numpy()[:-1] + 1)
    starts = np.flatnonzero(~goes_on)
    run = pa.array(np.cumsum(~goes_on))
    added = (
        ordered.select(list(_NUMBERS))
        .append_column("_run", run)
        .group_by("_run", use_threads=False)
        .aggregate(
            [("first", "min"), ("last", "max"), ("count", "sum"), ("at", "min"), ("place", "min")]
        )
    )
    added = added.take(pc.sort_indices(added["_run"]))
    found = groups.keys.take(pa.array(group[starts]))
    names = ("first", "last", "count", "began", "place")
    for name, column in zip(names, added.drop_columns(["_run"]).columns, strict=True):
        found = found.append_column(name, column)
    return found


def _dropped(drops: pa.Table) -> pa.Table:
    rows = drops.filter(pc.equal(drops["kind"], DROPPED))
    rows = rows.append_column("name", pc.coalesce(rows["session"], rows["reason"]))
    return Groups(rows, ("kind", "hub", "channel", "name")).added(
        {"count": (pc.fill_null(rows["count"], 1), "sum"), "began": (rows["at"], "min")}
    )


TABLE = arrow_table(
    "runs",
    SCHEMA,
    {
        "messages": (
            "hub",
            "channel",
            "epoch",
            "user",
            "producer",
            "sequence",
            "serial",
            "at",
            "message_id",
        ),
        "receipts": (
            "kind",
            "hub",
            "channel",
            "epoch",
            "user",
            "subscription",
            "delivery",
            "first_serial",
            "serial",
            "at",
            "segment",
            "offset",
        ),
        "drops": ("kind", "hub", "channel", "session", "reason", "count", "at"),
    },
    compute,
    key=("kind", "hub", "channel", "epoch", "user", "name", "again", "hour", "began", "first"),
)
