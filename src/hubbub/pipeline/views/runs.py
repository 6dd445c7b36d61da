"""Unbroken runs of numbers: what producers put and what durable subscriptions were handed."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from hubbub.pipeline.views.columns import FLAG, TEXT, TIME, WHOLE, hours, schema, with_columns
from hubbub.pipeline.views.view import View

COLUMNS = schema(
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
)


def compute(sources: Mapping[str, pa.Table]) -> pa.Table:
    """A run ends with its segment at the latest."""
    facts = sources["sequence_facts"]
    return with_columns(facts, hour=hours(facts["began"]))


VIEW = View(
    "runs",
    schema(COLUMNS, hour=TEXT),
    {"sequence_facts": tuple(COLUMNS.names)},
    compute,
    key=("kind", "hub", "channel", "epoch", "user", "name", "again", "hour", "began", "first"),
    reach="hour",
)
