"""Plans a round without Spark, so that an idle round costs next to nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from hubbub.pipeline.columns import DAY
from hubbub.pipeline.sources.journal import Split
from hubbub.pipeline.sources.segments import (
    Footer,
    Segment,
    SegmentRejection,
    footer,
    refusal,
    replaced_segments,
    sealed_segments,
)
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.tables.records import records_of
from hubbub.pipeline.tables.snapshot import Snapshot

FUTURE_TOLERANCE: Final = 600_000_000
"""Events further in the future are rejected: ten minutes of clock skew are tolerated."""

SILENT_AFTER: Final = DAY
"""A node without events for this long, while other nodes had some, is considered dead."""

DUPLICATE: Final = "duplicate_segment"


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table `segments`: a processed segment. Times are microseconds."""

    segment: str
    seen_at: int
    size: int
    modified: int
    rows: int = 0
    earliest: int | None = None
    latest: int | None = None
    fingerprint: str = ""
    refused: str | None = None
    duplicate_of: str | None = None
    kinds: dict[str, int] = {}
    unfit: dict[str, int] = {}
    nodes: dict[str, int] = {}
    starts: dict[str, list[int]] = {}


def endings(known: Iterable[Known]) -> dict[str, list[int]]:
    """Returns, by node, the times in microseconds at which all sessions of the node that were open
    had ended: each start of the node, and the last event of a node that other nodes outlived by a
    day."""
    starts: dict[str, list[int]] = defaultdict(list)
    heard: dict[str, int] = {}
    for one in known:
        for node, moments in one.starts.items():
            starts[node] += moments
        for node, at in one.nodes.items():
            heard[node] = max(heard.get(node, at), at)
    latest = max(heard.values(), default=0)
    for node, at in heard.items():
        if at + SILENT_AFTER < latest:
            starts[node].append(at + 1)
    return {node: sorted(moments) for node, moments in starts.items()}


@dataclass
class RoundPlan:
    full: bool
    known: dict[str, Known]
    """Segments processed by earlier rounds; empty for a rebuild."""
    live: dict[str, Segment]
    seen_at: dict[str, int]
    fresh: set[str]
    """Segments to ingest."""
    retracted: set[str]
    """Ingested segments that were replaced, changed, or must be ingested again."""
    again: set[str] = field(default_factory=set)
    """Fresh segments that were ingested before and did not change, but whose rows may count
    differently now."""
    refused: dict[str, SegmentRejection] = field(default_factory=dict)
    footers: dict[str, Footer] = field(default_factory=dict)

    @property
    def idle(self) -> bool:
        return not (self.fresh or self.refused or self.retracted or self.full)

    @property
    def kept(self) -> dict[str, Known]:
        """Ingested segments that stay unchanged."""
        return {name: one for name, one in self.known.items() if name not in self.retracted}

    @property
    def duplicates(self) -> set[str]:
        """Segments with exactly the same events as another one."""
        return {name for name, why in self.refused.items() if why.duplicate_of}

    @property
    def span(self) -> tuple[int, int] | None:
        """The earliest and latest time of new segments, if their footers contain it."""
        found = [self.footers[name] for name in self.fresh]
        said = [time for one in found for time in (one.earliest, one.latest)]
        known = [time for time in said if time is not None]
        return (min(known), max(known)) if known and len(known) == len(said) else None

    @property
    def splits(self) -> list[Split]:
        """The parts to ingest, segment by segment."""
        return [
            Split(self.live[name].path, group, rows)
            for name in sorted(self.fresh)
            for group, rows in enumerate(self.footers[name].groups)
        ]

    def refuse(self, name: str, why: SegmentRejection) -> None:
        self.fresh.discard(name)
        self.refused[name] = why

    def take_again(self, names: Collection[str]) -> None:
        """Marks segments for repeated ingestion, if they are still in the journal."""
        for name in names:
            if name in self.live and name not in self.fresh:
                self.again.add(name)
                self.retracted.add(name)
                self.fresh.add(name)
                self.footers[name] = footer(self.live[name])


def make_plan(snapshot: Snapshot, journal: Location, now: int, full: bool = False) -> RoundPlan:
    """`now` is in microseconds. Reads only the footers of new segments."""
    before = {one.segment: one for one in records_of(snapshot.read("segments"), Known)}
    live = sealed_segments(journal)
    known = {} if full else before
    retracted = _retracted(known, live, replaced_segments(journal))
    fresh = {name for name in live if name not in known or name in retracted}
    seen_at = {name: before[name].seen_at if name in before else now for name in live}
    plan = RoundPlan(full, known, live, seen_at, fresh, retracted)
    for name in sorted(fresh):
        why = refusal(live[name])
        if why is not None:
            plan.refuse(name, why)
        else:
            plan.footers[name] = footer(live[name])
    return plan


def _retracted(
    known: dict[str, Known], live: dict[str, Segment], replaced: Collection[str]
) -> set[str]:
    """Includes segments that were skipped as duplicates of a segment that is removed."""
    names = {name for name in known if name in replaced}
    for name, one in known.items():
        now = live.get(name)
        if one.refused and now and (now.size, now.modified) != (one.size, one.modified):
            names.add(name)
        if one.duplicate_of in names or one.duplicate_of in replaced:
            names.add(name)
    return names
