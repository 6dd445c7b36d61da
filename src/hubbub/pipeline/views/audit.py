"""The exactly-once audit: lost, duplicated and reordered messages, by producer and subscriber."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.domain import journal
from hubbub.pipeline.aggregates import WHOM
from hubbub.pipeline.columns import schema, with_columns
from hubbub.pipeline.grouping import Flags, Groups, Integers, changes, summed
from hubbub.pipeline.views.view import Sources, view

PRODUCER, SUBSCRIPTION, SESSION = "producer", "subscription", "session"
_NUMBERS = ("again", "first", "last", "count", "began", "place")


@view(
    schema(
        "text kind hub channel epoch user name verdict",
        "whole messages lost doubled out_of_order redelivered waiting dead expired first last",
        "time since",
    ),
    sequence_months=(*WHOM, *_NUMBERS),
)
def audit(sources: Sources) -> pa.Table:
    """One row for each producer, for each durable subscription, and for each session that lost live
    messages.

    lost: numbers between the first and the last that never appeared. doubled: a producer's sequence
    number stored twice, or a message that a subscription acknowledged twice. out_of_order: appeared
    after a higher number. redelivered: delivered again, which is not an error. waiting: delivered,
    but neither acknowledged nor given up. expired: not acknowledged before its time to live ended.
    """
    facts = sources["sequence_months"]
    facts = with_columns(facts, what=facts["kind"], kind=_kinds(facts["kind"]))
    groups = Groups(facts, WHOM)
    figures = _figures(facts, groups.ids, len(groups))
    found = with_columns(groups.added({"since": (facts["began"], "min")}), **figures)
    return found.append_column("verdict", _verdicts(found))


def _kinds(what: pa.ChunkedArray) -> pa.ChunkedArray:
    other = pc.if_else(pc.equal(what, journal.DROPPED), SESSION, SUBSCRIPTION)
    return pc.if_else(pc.equal(what, journal.PUBLISHED), PRODUCER, other)


def _verdicts(found: pa.Table) -> pa.ChunkedArray:
    verdict: pa.ChunkedArray = pa.chunked_array([pa.repeat("exactly once", len(found))])
    for name in ("waiting", "out_of_order", "doubled", "lost"):
        verdict = pc.if_else(pc.greater(found[name], 0), name.replace("_", " "), verdict)
    return verdict


def _figures(runs: pa.Table, ids: Integers, groups: int) -> dict[str, pa.Array]:
    numbers = runs.select(list(_NUMBERS))
    codes = runs["what"].combine_chunks().dictionary_encode()
    kinds = codes.dictionary.to_pylist()

    def of(*what: str) -> _Numbers:
        chosen = np.array([kind in what for kind in kinds], bool)
        wanted = chosen[codes.indices.to_numpy()]
        return _Numbers(numbers.filter(pa.array(wanted)), ids[wanted], groups)

    put, handed = of(journal.PUBLISHED), of(journal.RECEIVED)
    finished, dead = of(journal.ACKNOWLEDGED), of(journal.DEAD_LETTERED)
    # Acknowledged or given up: in both cases it will not come again.
    done = of(journal.ACKNOWLEDGED, journal.DEAD_LETTERED)
    came, dropped = of(journal.PUBLISHED, journal.RECEIVED), of(journal.DROPPED)
    messages = put.distinct() + handed.distinct()
    first, last = came.span()
    some = last >= first
    # What expired before it could be handed out is accounted for.
    covered = put.distinct() + of(journal.RECEIVED, journal.EXPIRED).within(first, last).distinct()
    missing = np.where(some, last - first + 1 - covered, 0)
    return {
        "messages": pa.array(messages),
        "lost": pa.array(missing + dropped.copies()),
        "doubled": pa.array(
            put.copies() + finished.copies() - put.distinct() - finished.distinct()
        ),
        "out_of_order": pa.array(came.late()),
        "redelivered": pa.array(handed.copies() - handed.distinct()),
        "waiting": pa.array(np.maximum(handed.distinct() - done.distinct(), 0)),
        "dead": pa.array(dead.distinct()),
        "expired": pa.array(of(journal.EXPIRED).distinct()),
        "first": pa.array(first, mask=~some),
        "last": pa.array(last, mask=~some),
    }


class _Numbers:
    """Runs of numbers of some kinds, by group."""

    def __init__(self, runs: pa.Table, ids: Integers, groups: int) -> None:
        self._runs = runs.append_column("_group", pa.array(ids))
        self._groups = groups

    def within(self, least: Integers, greatest: Integers) -> _Numbers:
        """Restricts each group to numbers between these."""
        ids = self._runs["_group"].to_numpy()
        first = np.maximum(self._runs["first"].to_numpy(), least[ids])
        last = np.minimum(self._runs["last"].to_numpy(), greatest[ids])
        inside = first <= last
        cut = pa.table({"first": first[inside], "last": last[inside]})
        return _Numbers(cut, ids[inside], self._groups)

    def copies(self) -> Integers:
        """How many numbers there are, counting every copy."""
        return summed(self._runs["_group"].to_numpy(), self._runs["count"].to_numpy(), self._groups)

    def span(self) -> tuple[Integers, Integers]:
        """The first and the last number; for an empty group, the last is less than the first."""
        bounds = np.iinfo(np.int64)
        first = np.full(self._groups, bounds.max)
        last = np.full(self._groups, bounds.min)
        ids = self._runs["_group"].to_numpy()
        np.minimum.at(first, ids, self._runs["first"].to_numpy())
        np.maximum.at(last, ids, self._runs["last"].to_numpy())
        return first, last

    def distinct(self) -> Integers:
        """How many distinct numbers there are; runs may overlap."""
        runs = _ordered(self._runs, "first", "last")
        ids, first, last = (runs[name].to_numpy() for name in ("_group", "first", "last"))
        reached, is_first = _reached(ids, last)
        before = np.where(is_first, first - 1, np.maximum(reached, first - 1))
        return summed(ids, np.maximum(last - before, 0), self._groups)

    def late(self) -> Integers:
        """Numbers that first appeared after a higher number."""
        new = self._runs.filter(pc.invert(self._runs["again"]))
        runs = _ordered(new, "began", "place", "first")
        ids, first, last = (runs[name].to_numpy() for name in ("_group", "first", "last"))
        reached, is_first = _reached(ids, last)
        late = np.where(is_first | (first >= reached), 0, np.minimum(last, reached - 1) - first + 1)
        return summed(ids, late, self._groups)


def _ordered(runs: pa.Table, *names: str) -> pa.Table:
    by = [(name, "ascending", "at_start") for name in ("_group", *names)]
    return runs.take(pc.sort_indices(runs, by))


def _reached(ids: Integers, last: Integers) -> tuple[Integers, Flags]:
    """The highest number before each run in its group, and a mark for runs without one."""
    is_first = changes(ids)
    # Ranks in place of numbers, so that a group's lie above all of the groups before it.
    values, ranks = np.unique(last, return_inverse=True)
    high = np.maximum.accumulate(ids * len(values) + ranks)
    before = np.concatenate(([0], high[:-1]))[: len(ids)]
    return (values[before % len(values)] if len(values) else last), is_first
