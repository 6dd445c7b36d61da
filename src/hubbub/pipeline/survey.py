"""A first pass over new segments: how much of what is in them, for which hours, and is it fit?

It reads a few columns. It tells which tables and hours a round touches, so that the rest of it does
no more than it must. Runs in Spark's tasks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.bronze import JUDGED, Source, batches, hour_indexes, hour_name, verdict

_IDENTITY: Final = (
    "offset",
    "at",
    "kind",
    "hub",
    "node",
    "channel",
    "session",
    "message_id",
    "serial",
)
_COLUMNS: Final = tuple(dict.fromkeys((*JUDGED, *_IDENTITY)))
_GROUPS: Final = ("kind", "reason", "hour_index")
_HASHED_ROWS: Final = 16_384


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
    fingerprint: str = ""
    """The same for the same events, whatever the segment is called and however packed."""

    def add(self, kind: str, reason: str | None, hour: int, rows: int, latest: int) -> None:
        self.rows += rows
        if reason is None:
            self.latest = max(self.latest, latest)
            self.hours[kind][hour_name(hour)] += rows
        else:
            self.refused[reason] += rows


def survey(sources: Sequence[Source]) -> dict[str, SegmentSurvey]:
    """By segment; one without any rows is not mentioned."""
    return {source.name: found for source in sources if (found := _survey_segment(source)).rows}


def _survey_segment(source: Source) -> SegmentSurvey:
    found = SegmentSurvey()
    identities = []
    for events in batches(source, _COLUMNS):
        judged = pa.table(
            {
                "kind": events["kind"],
                "at": events["at"],
                "reason": verdict(events, source.limit),
                "hour_index": hour_indexes(events),
            }
        )
        groups = judged.group_by(list(_GROUPS), use_threads=False).aggregate(
            [([], "count_all"), ("at", "max")]
        )
        for row in groups.to_pylist():
            found.add(
                row["kind"], row["reason"], row["hour_index"], row["count_all"], row["at_max"]
            )
        identities.append(events.select(_IDENTITY))
    if identities:
        found.fingerprint = f"{found.rows}-{_digest(pa.concat_tables(identities))}"
    return found


def _digest(identities: pa.Table) -> str:
    """In the order of the offsets, in steps of one size, and with one way to say that there is
    nothing: so that only what is said counts."""
    offsets = identities["offset"]
    if pc.any(pc.less(pc.pairwise_diff(offsets.combine_chunks()), 0)).as_py():
        identities = identities.sort_by([(name, "ascending") for name in _IDENTITY])
    digest = blake2b(digest_size=8)
    for start in range(0, len(identities), _HASHED_ROWS):
        part = identities.slice(start, _HASHED_ROWS).combine_chunks()
        for name in _IDENTITY:
            for said in _bytes_of(part[name].combine_chunks()):
                digest.update(said)
    return digest.hexdigest()


def _bytes_of(column: pa.Array) -> Iterator[bytes]:
    yield pc.is_null(column).to_numpy(zero_copy_only=False).tobytes()
    if not pa.types.is_string(column.type):
        yield pc.fill_null(column, 0).to_numpy().tobytes()
        return
    known = pc.fill_null(column, "")
    ends = np.frombuffer(known.buffers()[1], np.int32)[known.offset : known.offset + len(known) + 1]
    yield np.diff(ends).tobytes()
    texts = known.buffers()[2]
    if texts is not None:
        yield memoryview(texts)[ends[0] : ends[-1]].tobytes()


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
