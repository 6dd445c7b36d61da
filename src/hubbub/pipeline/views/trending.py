"""Words in messages, and subjects discussed more than usual."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.columns import HOUR, hours, schema, times, with_columns
from hubbub.pipeline.grouping import Groups, Integers
from hubbub.pipeline.views.view import Sources, view

MIN_MESSAGES = 2
"""A word in a single message of an hour is no trend; most words are."""
SHOWN_HOURS = 24
PAST_HOURS = 7 * 24
TOP = 20
"""The number of trends per hub, kind and hour."""


@view(
    schema("text hub term, whole messages, text hour"), "hour", term_facts="hub term time messages"
)
def terms(sources: Sources) -> pa.Table:
    facts = sources["term_facts"]
    found = Groups(facts, ("hub", "term", "time")).added({"messages": (facts["messages"], "sum")})
    found = found.filter(pc.greater_equal(found["messages"], MIN_MESSAGES))
    return with_columns(found, hour=hours(found["time"]))


@view(
    schema("text hub kind name, time time, whole messages, real usual score", "whole rank"),
    recent_hours=SHOWN_HOURS + PAST_HOURS,
    channels="",
    terms="",
)
def trending(sources: Sources) -> pa.Table:
    """`usual` is the hourly mean over the preceding week, or since the hub's first hour if that is
    later; hours without a message count as 0. `score` is how many standard deviations the hour is
    above that: 3 is rare, 10 is news. A channel with constant high traffic does not trend; a quiet
    one that becomes active does."""
    channels, words = sources["channels"], sources["terms"]
    subjects = pa.concat_tables(
        [
            _counted(channels, "channel", "channel"),
            _counted(channels, "type", "event"),
            _counted(words, "term", "term"),
        ]
    )
    hour = _numbers(subjects["hour"])
    messages: Integers = subjects["messages"].to_numpy()
    same = Groups(subjects, ("hub", "kind", "name"))
    seen, squares = _past(same.ids, hour, messages)
    known = np.minimum(hour - _begun(subjects, hour), PAST_HOURS)
    chosen = known > 0
    chosen[hour <= hour.max(initial=0) - SHOWN_HOURS] = False
    hour, messages, known = hour[chosen], messages[chosen], known[chosen]
    usual = seen[chosen] / known
    variance = squares[chosen] / known - usual * usual
    score = (messages - usual) / np.sqrt(np.maximum(variance, usual) + 1)
    scored = subjects.filter(pa.array(chosen)).select(["hub", "kind", "name"])
    scored = with_columns(
        scored,
        messages=pa.array(messages),
        usual=pa.array(usual),
        score=pa.array(score),
        time=times(hour * HOUR),
    )
    return _best(scored.filter(pa.array(score > 0)))


def _best(scored: pa.Table) -> pa.Table:
    groups = Groups(scored, ("hub", "kind", "time"))
    scored = scored.append_column("_group", pa.array(groups.ids))
    by = [("_group", "ascending"), ("score", "descending"), ("name", "ascending")]
    ordered = scored.take(pc.sort_indices(scored, by))
    group = ordered["_group"].to_numpy()
    rank = np.arange(len(group)) - np.searchsorted(group, group) + 1
    ordered = ordered.append_column("rank", pa.array(rank))
    return ordered.filter(pa.array(rank <= TOP))


def _past(subject: Integers, hour: Integers, messages: Integers) -> tuple[Integers, Integers]:
    """The messages of each subject in the preceding hours, and their sum of squares by hour."""
    # Subjects so far apart that one's past is never within another's.
    apart = int(np.ptp(hour)) + 1 + PAST_HOURS if len(hour) else 1
    key = subject * apart + (hour - hour.min(initial=2**40))
    order = np.argsort(key)
    ordered = key[order]
    first = np.searchsorted(ordered, ordered - PAST_HOURS)
    found = []
    for values in (messages, messages * messages):
        sums = np.concatenate(([0], np.cumsum(values[order])))
        each = np.empty(len(key), np.int64)
        each[order] = sums[:-1] - sums[first]
        found.append(each)
    return found[0], found[1]


def _begun(subjects: pa.Table, hour: Integers) -> Integers:
    """The first hour of each subject's hub."""
    hubs = Groups(subjects, ("hub",))
    first: Integers = hubs.added({"hour": (hour, "min")})["hour"].to_numpy()
    return first[hubs.ids]


def _numbers(hours: pa.ChunkedArray) -> Integers:
    """Hours since 1970."""
    codes = hours.combine_chunks().dictionary_encode()
    known = [_number(hour) for hour in codes.dictionary.to_pylist()]
    found: Integers = np.array(known, np.int64)[codes.indices.to_numpy()]
    return found


def _number(hour: str) -> int:
    return int(datetime.strptime(f"{hour}+0000", "%Y-%m-%dT%H%z").timestamp()) // 3600


def _counted(rows: pa.Table, kind: str, name: str) -> pa.Table:
    """One row per subject and hour."""
    some = rows.filter(pc.is_valid(rows[name]))
    found = Groups(some, ("hub", name, "hour")).added({"messages": (some["messages"], "sum")})
    found = found.rename_columns(["hub", "name", "hour", "messages"])
    return with_columns(found, kind=pa.repeat(kind, len(found)))
