"""How fast each peer answers, by day."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.grouping import Groups
from hubbub.pipeline.views import histograms, spreads
from hubbub.pipeline.views.columns import TEXT, WHOLE, days, differ, schema, with_columns
from hubbub.pipeline.views.view import View

SCHEMA = schema(
    schema(hub=TEXT, peer=TEXT, day=TEXT, answers=WHOLE, askers=WHOLE),
    histograms.fields("response"),
)


def compute(sources: Mapping[str, pa.Table]) -> pa.Table:
    """Answers to oneself, and answers to questions that the journal does not have, are no
    measure of how fast somebody is."""
    replies = sources["replies"]
    measured = pc.and_(pc.is_valid(replies["response_time"]), pc.is_valid(replies["answerer"]))
    answers = replies.filter(pc.and_(measured, differ(replies["asker"], replies["answerer"])))
    answers = with_columns(answers, peer=answers["answerer"], day=days(answers["answered_at"]))
    rows = spreads.of_each(answers, "response_time", "response")
    groups = Groups(rows, ("hub", "peer", "day"))
    found = spreads.described(spreads.added(rows, groups, "response"), "response")
    askers = pa.array(groups.different(rows["asker"]))
    return with_columns(found, answers=found["response_count"], askers=askers)


VIEW = View(
    "responses",
    SCHEMA,
    {"replies": ("hub", "asker", "answerer", "answered_at", "response_time")},
    compute,
    key=("hub", "peer", "day"),
    reach="day",
)
