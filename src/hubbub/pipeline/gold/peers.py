"""Profiles of peers: what they write, when, and whether and how fast they answer."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.gold import histograms, spreads
from hubbub.pipeline.gold.adding import Concerned, known, others, together
from hubbub.pipeline.gold.columns import REAL, TEXT, TIME, WHOLE, schema, with_fields
from hubbub.pipeline.gold_tables import arrow_table
from hubbub.pipeline.grouping import Groups, Integers, named
from hubbub.pipeline.history import History
from hubbub.pipeline.state import Partition

_WRITTEN = ("messages", "bytes", "attempts", "attempts_ok")
_OPENED = ("sessions", "session_time")
_SUMMED = (*_WRITTEN, *_OPENED)
SCHEMA = with_fields(
    schema(
        hub=TEXT,
        peer=TEXT,
        first_at=TIME,
        last_at=TIME,
        active_hours=WHOLE,
        busiest_hour=WHOLE,
        messages=WHOLE,
        bytes=WHOLE,
        sessions=WHOLE,
        session_time=WHOLE,
        questions_answered=WHOLE,
        answers=WHOLE,
        attempts=WHOLE,
        attempts_ok=WHOLE,
        reached=REAL,
    ),
    histograms.fields("response"),
)
_KEYS = ("hub", "peer")
_HOURS_OF_A_DAY = 24
_RESPONSE = spreads.summed("response")
_NAMING = {"peer_hours": ("peer",), "peer_sessions": ("peer",), "replies": ("asker", "answerer")}
"""The columns in which sources name peers; rows are looked up by the first."""


def compute(sources: Mapping[str, pa.Table], _: str) -> pa.Table:
    """`busiest_hour` is the hour of the day (UTC) with most messages; `questions_answered` counts
    the messages of this peer that somebody else answered; `reached` is the share of attempts to
    reach the peer that went well."""
    hours = together(sources["peer_hours"], sources["peer_sessions"])
    responses = sources["responses"]
    groups = Groups(hours, _KEYS)
    messages = known(hours["messages"])
    totals = groups.added(
        {
            **{name: (known(hours[name]), "sum") for name in _SUMMED},
            "first_at": (hours["first_at"], "min"),
            "last_at": (hours["last_at"], "max"),
            "active_hours": (pc.greater(messages, 0).cast(pa.int64()), "sum"),
        }
    )
    names = named(totals["hub"], totals["peer"])
    spread = spreads.added(responses, Groups(responses, _KEYS), "response")
    places = pc.index_in(names, named(spread["hub"], spread["peer"]).combine_chunks())
    asked = _asked(sources["replies"])
    asked_places = pc.index_in(names, named(asked["hub"], asked["peer"]).combine_chunks())
    attempts = totals["attempts"].to_numpy().astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        reached = np.where(attempts == 0, np.nan, totals["attempts_ok"].to_numpy() / attempts)
    more = {
        **{name: spread[name].take(places) for name in _RESPONSE},
        "busiest_hour": _busiest(groups, hours),
        "questions_answered": known(asked["questions"].take(asked_places)),
        "answers": known(spread["response_count"].take(places)),
        "reached": pa.array(reached, from_pandas=True),
    }
    for name, column in more.items():
        totals = totals.append_column(name, column)
    return spreads.described(totals, "response")


def update(history: History) -> Mapping[str, Mapping[Partition, pa.Table]]:
    """Only those of whom anything changed."""
    concerned = Concerned(
        *(
            (rows, column)
            for source, columns in _NAMING.items()
            for rows in history.differing(source)
            for column in columns
        )
    )
    sources = {
        source: concerned.of(history.rows(source), column)
        for source, (column, *_) in {**_NAMING, "responses": ("peer",)}.items()
    }
    kept = concerned.others(history.own("peers"), "peer")
    return {"peers": {"": together(kept, compute(sources, "").select(SCHEMA.names))}}


def _busiest(groups: Groups, hours: pa.Table) -> pa.Array:
    """Of hours with as many messages, the earlier one."""
    of_day: Integers = pc.utf8_slice_codeunits(hours["hour"], 11, 13).cast(pa.int64()).to_numpy()
    messages = np.zeros(len(groups) * _HOURS_OF_A_DAY, np.int64)
    np.add.at(messages, groups.ids * _HOURS_OF_A_DAY + of_day, known(hours["messages"]).to_numpy())
    by_hour = messages.reshape(-1, _HOURS_OF_A_DAY)
    return pa.array(by_hour.argmax(axis=1), mask=by_hour.max(axis=1) <= 0)


def _asked(replies: pa.Table) -> pa.Table:
    """How many questions of each peer somebody else answered."""
    of_others = others(replies["asker"], replies["answerer"])
    answered = replies.filter(pc.and_(pc.is_valid(replies["asker"]), of_others))
    answered = answered.append_column("peer", answered["asker"])
    groups = Groups(answered, _KEYS)
    questions = pa.array(groups.different(answered["question_id"]))
    return groups.keys.append_column("questions", questions)


TABLE = arrow_table(
    "peers",
    SCHEMA,
    {
        "peer_hours": (*_KEYS, *_WRITTEN, "first_at", "last_at", "hour"),
        "peer_sessions": (*_KEYS, *_OPENED, "first_at", "last_at", "hour"),
        "replies": ("hub", "asker", "answerer", "question_id", "response_time"),
        "responses": (*_KEYS, *_RESPONSE),
    },
    compute,
    key=("hub", "peer"),
    update=update,
)
