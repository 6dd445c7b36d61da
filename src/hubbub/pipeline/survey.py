"""A first pass over new segments: how much of what is in them, for which hours, and is it fit?

One aggregate over a few columns. It tells which tables and hours a round touches, so that the rest
of it does no more than it must.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from hubbub.pipeline.bronze import HOUR_MICROSECONDS, hour_name, verdict

_IDENTITY = ("offset", "at", "kind", "hub", "node", "channel", "session", "message_id", "serial")


@dataclass
class SegmentSurvey:
    """What is in one segment."""

    rows: int = 0
    latest: int = 0
    """The latest time of any fit event, in microseconds."""
    hours: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(Counter))
    """Fit events by kind and hour."""
    refused: Counter[str] = field(default_factory=Counter)
    """Unfit ones by reason."""
    _digest: int = 0

    @property
    def fingerprint(self) -> str:
        """The same for the same events, whatever the segment is called and however packed."""
        return f"{self.rows}-{self._digest & (2**64 - 1):016x}"

    def add(self, row: Row) -> None:
        self.rows += row.rows
        self._digest ^= row.digest
        if row.reason is None:
            self.latest = max(self.latest, row.latest)
            self.hours[row.kind][hour_name(row.hour_index)] += row.rows
        else:
            self.refused[row.reason] += row.rows


def survey(events: DataFrame, limits: Mapping[str, int]) -> dict[str, SegmentSurvey]:
    """By segment; one without any rows is not mentioned."""
    found: dict[str, SegmentSurvey] = defaultdict(SegmentSurvey)
    for row in _groups(events, limits).collect():
        found[row.segment].add(row)
    return dict(found)


def _groups(events: DataFrame, limits: Mapping[str, int]) -> DataFrame:
    return (
        events.withColumn("reason", verdict(limits))
        .withColumn(
            "hour_index",
            F.when(F.col("reason").isNull(), F.expr(f"at div {HOUR_MICROSECONDS}")),
        )
        .groupBy("segment", "kind", "reason", "hour_index")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.max("at").alias("latest"),
            F.bit_xor(F.xxhash64(*_IDENTITY)).alias("digest"),
        )
    )


def duplicates(surveys: Mapping[str, SegmentSurvey], known: Mapping[str, str]) -> dict[str, str]:
    """Segments that hold exactly what another one holds, and which: of those that were taken in
    before (`known`: names by fingerprint), or of those that sort before them."""
    first = dict(known)
    doubles = {}
    for name in sorted(surveys):
        other = first.setdefault(surveys[name].fingerprint, name)
        if other != name:
            doubles[name] = other
    return doubles


def hours_of(surveys: Iterable[SegmentSurvey], kinds: Iterable[str]) -> set[str]:
    """All hours in which there are events of these kinds."""
    wanted = set(kinds)
    return {
        hour
        for one in surveys
        for kind, hours in one.hours.items()
        if kind in wanted
        for hour in hours
    }
