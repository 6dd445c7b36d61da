"""How fast each peer answers, by day."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.gold import histograms, spreads
from hubbub.pipeline.gold.adding import Concerned, others, together
from hubbub.pipeline.gold.columns import TEXT, WHOLE, schema, with_fields
from hubbub.pipeline.gold_tables import arrow_table
from hubbub.pipeline.grouping import Groups
from hubbub.pipeline.history import History
from hubbub.pipeline.state import Partition

SCHEMA = with_fields(
    schema(hub=TEXT, peer=TEXT, day=TEXT, answers=WHOLE, askers=WHOLE),
    histograms.fields("response"),
)


def compute(sources: Mapping[str, pa.Table], _: str) -> pa.Table:
    """Answers to oneself, and answers to questions that the journal does not have, are no
    measure of how fast somebody is."""
    replies = sources["replies"]
    measured = pc.and_(pc.is_valid(replies["response_time"]), pc.is_valid(replies["answerer"]))
    answers = replies.filter(pc.and_(measured, others(replies["asker"], replies["answerer"])))
    answers = answers.append_column("peer", answers["answerer"])
    day = pc.floor_temporal(answers["answered_at"], unit="day")
    answers = answers.append_column("_day", day.cast(pa.date32()))
    rows = spreads.of_each(answers, "response_time", "response")
    groups = Groups(rows, ("hub", "peer", "_day"))
    found = spreads.described(spreads.added(rows, groups, "response"), "response")
    askers = pa.array(groups.different(rows["asker"]))
    return (
        found.append_column("answers", found["response_count"])
        .append_column("askers", askers)
        .append_column("day", found["_day"].cast(pa.string()))
    )


def update(history: History) -> Mapping[str, Mapping[Partition, pa.Table]]:
    """Makes the days again whose answers changed, for those who gave them."""
    concerned = Concerned(*((rows, "answerer") for rows in history.differing("replies")))
    days = sorted({hour[: len("2026-11-15")] for hour in history.changed("replies")})
    hours = [hour for hour in history.partitions("replies") if hour.startswith(tuple(days))]
    own = history.own("responses")
    today = pc.is_in(own["day"], pa.array(days))
    again = compute({"replies": concerned.of(history.rows("replies", hours), "answerer")}, "")
    rows = together(
        own.filter(pc.invert(today)),
        concerned.others(own.filter(today), "peer"),
        again.select(SCHEMA.names),
    )
    return {"responses": {"": rows}}


TABLE = arrow_table(
    "responses",
    SCHEMA,
    {"replies": ("hub", "asker", "answerer", "answered_at", "response_time")},
    compute,
    key=("hub", "peer", "day"),
    update=update,
)
