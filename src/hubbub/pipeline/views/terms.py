"""Words in the text of messages, by the hour, where payloads are in the journal."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.grouping import Groups
from hubbub.pipeline.views.columns import TEXT, WHOLE, hours, schema, with_columns
from hubbub.pipeline.views.view import View

MIN_MESSAGES = 2
"""A word of a single message in an hour is no trend, and most words are such."""


def compute(sources: Mapping[str, pa.Table]) -> pa.Table:
    facts = sources["term_facts"]
    found = Groups(facts, ("hub", "term", "time")).added({"messages": (facts["messages"], "sum")})
    found = found.filter(pc.greater_equal(found["messages"], MIN_MESSAGES))
    return with_columns(found, hour=hours(found["time"]))


VIEW = View(
    "terms",
    schema(hub=TEXT, term=TEXT, messages=WHOLE, hour=TEXT),
    {"term_facts": ("hub", "term", "time", "messages")},
    compute,
    key=("hub", "term", "hour"),
    reach="hour",
)
