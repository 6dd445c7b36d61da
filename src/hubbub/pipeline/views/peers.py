"""Peers: what they write and when, and whether and how fast they reply."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline import spreads
from hubbub.pipeline.aggregates import HOURS_OF_A_DAY, MONTH, SPAN, added
from hubbub.pipeline.columns import REAL, schema, with_columns
from hubbub.pipeline.grouping import Groups, whole
from hubbub.pipeline.views.view import Sources, view

_KEYS = ("hub", "peer")


@view(
    schema(
        "text hub peer",
        SPAN,
        "whole active_hours busiest_hour messages bytes sessions session_time",
        "whole questions_answered answers attempts attempts_ok, real reached",
        spreads.fields("response"),
    ),
    peer_months=MONTH.names,
)
def peers(sources: Sources) -> pa.Table:
    """`busiest_hour` is the hour of the day (UTC) with the most messages; `questions_answered`
    counts messages of this peer to which another peer replied; `reached` is the share of successful
    delivery attempts to the peer."""
    months = sources["peer_months"]
    totals = added(months, Groups(months, _KEYS))
    tried = pc.if_else(pc.greater(totals["attempts"], 0), totals["attempts"], None)
    more = {
        "busiest_hour": _busiest(whole(totals["hours"])),
        "answers": totals["response_count"],
        "reached": pc.divide(totals["attempts_ok"].cast(REAL), tried.cast(REAL)),
    }
    return spreads.described(with_columns(totals, **more), "response")


def _busiest(hours: pa.MapArray) -> pa.Array:
    """The hour with the most messages, the earlier one on a tie; null if there are none."""
    row = np.repeat(np.arange(len(hours)), np.diff(hours.offsets.to_numpy()))
    by_hour = np.zeros((len(hours), HOURS_OF_A_DAY), np.int64)
    by_hour[row, hours.keys.to_numpy()] = hours.items.to_numpy()
    return pa.array(by_hour.argmax(axis=1), mask=by_hour.max(axis=1) <= 0)
