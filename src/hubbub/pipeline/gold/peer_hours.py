"""What each peer wrote in each hour, and who was sought: what `peers` adds up."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.gold.adding import known, together, who
from hubbub.pipeline.gold.columns import TEXT, TIME, WHOLE, schema
from hubbub.pipeline.gold_tables import arrow_table
from hubbub.pipeline.grouping import Groups

_COUNTS = (
    "messages",
    "bytes",
    "attempts",
    "attempts_ok",
)
SCHEMA = schema(
    hub=TEXT,
    peer=TEXT,
    **dict.fromkeys(_COUNTS, WHOLE),
    first_at=TIME,
    last_at=TIME,
    hour=TEXT,
)
_KEYS = ("hub", "peer")


def compute(sources: Mapping[str, pa.Table], _hour: str) -> pa.Table:
    """A peer is a user, a sender, or somebody whom an adapter tried to reach."""
    every = together(_wrote(sources["messages"]), _was_sought(sources["attempts"]))
    every = every.filter(pc.is_valid(every["peer"]))
    return Groups(every, _KEYS).added(
        {
            **{name: (known(every[name]), "sum") for name in _COUNTS},
            "first_at": (every["first_at"], "min"),
            "last_at": (every["last_at"], "max"),
        }
    )


def _wrote(messages: pa.Table) -> pa.Table:
    rows = messages.append_column("peer", who(messages))
    return Groups(rows, _KEYS).added(
        {
            "messages": (pa.repeat(1, len(rows)), "sum"),
            "bytes": (known(rows["size"]), "sum"),
            "first_at": (rows["at"], "min"),
            "last_at": (rows["at"], "max"),
        }
    )


def _was_sought(attempts: pa.Table) -> pa.Table:
    went_well = pc.fill_null(pc.equal(attempts["outcome"], "ok"), False)
    return Groups(attempts, _KEYS).added(
        {
            "attempts": (pa.repeat(1, len(attempts)), "sum"),
            "attempts_ok": (went_well.cast(pa.int64()), "sum"),
        }
    )


TABLE = arrow_table(
    "peer_hours",
    SCHEMA,
    {
        "messages": ("hub", "sender", "user", "size", "at"),
        "attempts": ("hub", "peer", "outcome"),
    },
    compute,
    key=("hub", "peer", "hour"),
)
