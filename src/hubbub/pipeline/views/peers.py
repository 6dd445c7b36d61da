"""Peers: what they write, when, and whether and how fast they answer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.grouping import Groups, Integers, named
from hubbub.pipeline.views import spreads
from hubbub.pipeline.views.columns import differ, hours, ones, or_zero, schema, union, with_columns
from hubbub.pipeline.views.view import Sources, View

_WRITTEN = ("messages", "bytes", "attempts", "attempts_ok")
_OPENED = ("sessions", "session_time")
_SUMMED = (*_WRITTEN, *_OPENED)
_KEYS = ("hub", "peer")
_HOURS_OF_A_DAY = 24
_RESPONSE = spreads.sums("response").names


def peer_hours(sources: Sources) -> pa.Table:
    """What each peer wrote in each hour, and how often adapters tried to reach the peer."""
    facts = sources["peer_facts"]
    found = Groups(facts, ("hub", "peer", "time")).added(
        {
            **{name: (facts[name], "sum") for name in _WRITTEN},
            "first_at": (facts["first_at"], "min"),
            "last_at": (facts["last_at"], "max"),
        }
    )
    return with_columns(found, hour=hours(found["time"]))


def peer_sessions(sources: Sources) -> pa.Table:
    """`last_at` is the end of a session, if it has ended."""
    sessions = sources["sessions"]
    rows = sessions.filter(pc.is_valid(sessions["user"]))
    rows = with_columns(rows, peer=rows["user"], hour=hours(rows["opened_at"]))
    return Groups(rows, ("hub", "peer", "hour")).added(
        {
            "sessions": (ones(rows), "sum"),
            "session_time": (or_zero(rows["duration"]), "sum"),
            "first_at": (rows["opened_at"], "min"),
            "last_at": (pc.coalesce(rows["closed_at"], rows["opened_at"]), "max"),
        }
    )


def peers(sources: Sources) -> pa.Table:
    """`busiest_hour` is the hour of the day (UTC) with most messages; `questions_answered` counts
    the messages of this peer that somebody else answered; `reached` is the share of attempts to
    reach the peer that went well."""
    hours = union(sources["peer_hours"], sources["peer_sessions"])
    responses = sources["responses"]
    groups = Groups(hours, _KEYS)
    messages = or_zero(hours["messages"])
    totals = groups.added(
        {
            **{name: (or_zero(hours[name]), "sum") for name in _SUMMED},
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
        "questions_answered": or_zero(asked["questions"].take(asked_places)),
        "answers": or_zero(spread["response_count"].take(places)),
        "reached": pa.array(reached, from_pandas=True),
    }
    return spreads.described(with_columns(totals, **more), "response")


def _busiest(groups: Groups, hours: pa.Table) -> pa.Array:
    """Of hours with as many messages, the earlier one."""
    of_day: Integers = pc.utf8_slice_codeunits(hours["hour"], 11, 13).cast(pa.int64()).to_numpy()
    messages = np.zeros(len(groups) * _HOURS_OF_A_DAY, np.int64)
    np.add.at(
        messages, groups.ids * _HOURS_OF_A_DAY + of_day, or_zero(hours["messages"]).to_numpy()
    )
    by_hour = messages.reshape(-1, _HOURS_OF_A_DAY)
    return pa.array(by_hour.argmax(axis=1), mask=by_hour.max(axis=1) <= 0)


def _asked(replies: pa.Table) -> pa.Table:
    """How many questions of each peer somebody else answered."""
    of_others = differ(replies["asker"], replies["answerer"])
    answered = replies.filter(pc.and_(pc.is_valid(replies["asker"]), of_others))
    answered = answered.append_column("peer", answered["asker"])
    groups = Groups(answered, _KEYS)
    questions = pa.array(groups.different(answered["question_id"]))
    return groups.keys.append_column("questions", questions)


_SPAN = schema("time first_at last_at")

VIEWS = (
    View(
        peer_hours,
        schema("text hub peer", f"whole {' '.join(_WRITTEN)}", _SPAN, "text hour"),
        {"peer_facts": (*_KEYS, "time", *_WRITTEN, "first_at", "last_at")},
        reach="hour",
    ),
    View(
        peer_sessions,
        schema("text hub peer", f"whole {' '.join(_OPENED)}", _SPAN, "text hour"),
        {"sessions": ("hub", "user", "duration", "opened_at", "closed_at")},
        reach="hour",
    ),
    View(
        peers,
        schema(
            "text hub peer",
            _SPAN,
            "whole active_hours busiest_hour messages bytes sessions session_time",
            "whole questions_answered answers attempts attempts_ok, real reached",
            spreads.fields("response"),
        ),
        {"peer_hours": (), "peer_sessions": (), "replies": (), "responses": (*_KEYS, *_RESPONSE)},
    ),
)
