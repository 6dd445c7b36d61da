"""What each peer wrote in each hour, and how often adapters tried to reach the peer."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from hubbub.pipeline.grouping import Groups
from hubbub.pipeline.views.columns import TEXT, TIME, WHOLE, hours, schema, with_columns
from hubbub.pipeline.views.view import View

COUNTS = ("messages", "bytes", "attempts", "attempts_ok")


def compute(sources: Mapping[str, pa.Table]) -> pa.Table:
    facts = sources["peer_facts"]
    found = Groups(facts, ("hub", "peer", "time")).added(
        {
            **{name: (facts[name], "sum") for name in COUNTS},
            "first_at": (facts["first_at"], "min"),
            "last_at": (facts["last_at"], "max"),
        }
    )
    return with_columns(found, hour=hours(found["time"]))


VIEW = View(
    "peer_hours",
    schema(
        schema(hub=TEXT, peer=TEXT, **dict.fromkeys(COUNTS, WHOLE)),
        first_at=TIME,
        last_at=TIME,
        hour=TEXT,
    ),
    {"peer_facts": ("hub", "peer", "time", *COUNTS, "first_at", "last_at")},
    compute,
    key=("hub", "peer", "hour"),
    reach="hour",
)
