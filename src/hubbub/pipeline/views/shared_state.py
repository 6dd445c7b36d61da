"""Features besides messages: documents, notifications, and pushes to devices."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from hubbub.domain.journal import PUSH_OUTCOMES
from hubbub.pipeline import spreads
from hubbub.pipeline.columns import REAL, days, schema, with_columns
from hubbub.pipeline.grouping import Groups
from hubbub.pipeline.views.view import Sources, view

_DOCUMENT = ("hub", "channel", "day")
_PUSH = ("hub", "platform", "day")


@view(
    schema(
        "text hub channel, whole changes authors bytes version document_bytes",
        "time first_at last_at, text day",
    ),
    "day",
    document_facts="hub channel user time changes bytes version document_bytes first_at last_at",
)
def documents(sources: Sources) -> pa.Table:
    """`version` and `document_bytes` are the values after the day's last change."""
    facts = sources["document_facts"]
    facts = facts.sort_by([("last_at", "ascending"), ("version", "ascending")])
    facts = with_columns(facts, day=days(facts["time"]))
    groups = Groups(facts, _DOCUMENT)
    found = groups.added(
        {
            **{name: (facts[name], "sum") for name in ("changes", "bytes")},
            **{name: (facts[name], "last") for name in ("version", "document_bytes")},
            "first_at": (facts["first_at"], "min"),
            "last_at": (facts["last_at"], "max"),
        }
    )
    return with_columns(found, authors=pa.array(groups.different(facts["user"])))


@view(
    schema("text hub, whole created unread", spreads.fields("read"), "text day"),
    "day",
    notification_facts=("hub", "time", "created", *spreads.sums("read").names),
)
def notifications(sources: Sources) -> pa.Table:
    """Counts by the day of creation, including later reads."""
    facts = sources["notification_facts"]
    facts = with_columns(facts, day=days(facts["time"]))
    found = spreads.added(
        facts, Groups(facts, ("hub", "day")), "read", {"created": facts["created"]}
    )
    unread = pc.max_element_wise(pc.subtract(found["created"], found["read_count"]), 0)
    return with_columns(spreads.described(found, "read"), unread=unread)


@view(
    schema(
        f"text hub platform, whole {' '.join(('attempts', *PUSH_OUTCOMES))}, real success",
        spreads.fields("duration"),
        "text day",
    ),
    "day",
    push_facts=(*_PUSH[:2], "outcome", "time", "attempts", *spreads.sums("duration").names),
)
def pushes(sources: Sources) -> pa.Table:
    """`success` is the share of attempts that the platform's service accepted."""
    facts = sources["push_facts"]
    facts = with_columns(facts, day=days(facts["time"]))
    totals = {"attempts": facts["attempts"]}
    for outcome in PUSH_OUTCOMES:
        is_it = pc.fill_null(pc.equal(facts["outcome"], outcome), False)
        totals[outcome] = pc.if_else(is_it, facts["attempts"], 0)
    found = spreads.added(facts, Groups(facts, _PUSH), "duration", totals)
    success = pc.divide(found["ok"].cast(REAL), found["attempts"].cast(REAL))
    return with_columns(spreads.described(found, "duration"), success=success)
