"""Totals by key and month, which views over all time add up instead of reading all facts.

A row depends only on the source rows of its key and month. So a round recomputes only rows whose
sources changed, with the same result as a rebuild. Needs Arrow only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline import aggregates, spreads
from hubbub.pipeline.aggregates import RUN, WHOM
from hubbub.pipeline.columns import HOUR, micros, or_zero, schema, with_columns
from hubbub.pipeline.grouping import Groups, whole
from hubbub.pipeline.transforms.facts import coalesce_runs


@dataclass(frozen=True)
class MonthSource:
    """The relevant rows of a source table, as SQL, and the column that assigns them to a month."""

    table: str
    time: str
    columns: str
    where: str = "true"


@dataclass(frozen=True)
class Totals:
    table: str
    key: tuple[str, ...]
    shape: pa.Schema
    """The columns of all parts; null in a part that lacks them."""
    compute: Callable[[pa.Table], pa.Table]
    """Computes table rows from all source rows of some keys in a month."""
    parts: tuple[MonthSource, ...]


def peer_months(parts: pa.Table) -> pa.Table:
    groups = Groups(parts, ("hub", "peer", "month"))
    messages = whole(or_zero(parts["messages"]))
    wrote = pc.greater(messages, 0)
    hour = pa.array(micros(parts["time"]) // HOUR)
    by_hour = pa.MapArray.from_arrays(
        pa.array(np.concatenate(([0], np.cumsum(wrote))), pa.int32()),
        pa.array(hour.filter(wrote).to_numpy() % aggregates.HOURS_OF_A_DAY, pa.int32()),
        messages.filter(wrote),
    )
    rows = with_columns(spreads.of_each(parts, "response_time", "response"), hours=by_hour)
    active = pc.if_else(wrote, hour, pa.scalar(None, pa.int64()))
    return with_columns(
        aggregates.added(rows, groups),
        active_hours=pa.array(groups.different(active)),
        questions_answered=pa.array(groups.different(parts["question_id"])),
    )


def sequence_months(runs: pa.Table) -> pa.Table:
    """Merges runs that continue in the next hour or segment. The audit's results stay the same: it
    needs the order of runs and their numbers only."""
    return coalesce_runs(runs, ("month", *WHOM, "again"), ("began", "place", "first"))


_OF_OTHERS: Final = "how IS NOT NULL AND asker IS DISTINCT FROM peer"
_WROTE: Final = f"hub, peer, time, {', '.join(aggregates.WRITTEN)}, first_at, last_at"
_OPENED: Final = (
    "hub, user AS peer, opened_at AS time, CAST(1 AS BIGINT) AS sessions, opened_at AS first_at,"
    " coalesce(closed_at, opened_at) AS last_at, coalesce(duration, 0) AS session_time"
)
_ANSWERED: Final = f"{_OF_OTHERS} AND peer IS NOT NULL AND response_time IS NOT NULL"
_ASKED: Final = "hub, asker AS peer, asked_at AS time, question_id"
_PEER: Final = schema(
    f"text hub peer question_id, whole {' '.join(aggregates.COUNTS)} response_time",
    "time month time first_at last_at",
)
TOTALS: Final = (
    Totals(
        "peer_months",
        ("hub", "peer"),
        _PEER,
        peer_months,
        (
            MonthSource("peer_facts", "time", _WROTE),
            MonthSource("sessions", "opened_at", _OPENED, "user IS NOT NULL"),
            MonthSource("linked_messages", "at", "hub, peer, at AS time, response_time", _ANSWERED),
            MonthSource(
                "linked_messages", "asked_at", _ASKED, f"{_OF_OTHERS} AND asker IS NOT NULL"
            ),
        ),
    ),
    Totals(
        "sequence_months",
        WHOM,
        schema("time month", RUN),
        sequence_months,
        (MonthSource("sequence_facts", "began", ", ".join(RUN.names)),),
    ),
)
