"""What a round has to do, found out without Spark: an idle round costs next to nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hubbub.pipeline.inspecting import Segment, refusal, replaced_segments, sealed_segments
from hubbub.pipeline.state import LAYOUT, SegmentState, State

FUTURE_TOLERANCE_MICROSECONDS: Final = 600_000_000
"""How far a clock may be ahead before its events are not believed: ten minutes."""

DUPLICATE: Final = "duplicate_segment"


@dataclass
class Plan:
    """`base` is the committed state, or nothing at all for a rebuild."""

    base: State
    full: bool
    live: dict[str, Segment]
    fresh: dict[str, Segment]
    """To be taken in."""
    refused: dict[str, tuple[Segment, str, str]]
    """Segments that cannot be taken, with a word and a sentence for it."""
    retracted: dict[str, SegmentState]
    """Taken in before, and now replaced by others or changed: what they gave goes."""
    seen_at: dict[str, int]

    @property
    def idle(self) -> bool:
        return not (self.fresh or self.refused or self.retracted or self.full)

    def refuse(self, name: str, word: str, sentence: str) -> None:
        self.refused[name] = (self.fresh.pop(name), word, sentence)

    def limit(self, name: str) -> int:
        """The latest time that is believed of events in this segment."""
        return self.seen_at[name] + FUTURE_TOLERANCE_MICROSECONDS


def plan(state: State, journal: Path, now: int, full: bool = False) -> Plan:
    """`now` in microseconds. Looks at the footers of new segments only."""
    live = sealed_segments(journal)
    full = full or (state.layout != LAYOUT and bool(state.segments))
    base = State() if full else state
    retracted = _retracted(base, live, replaced_segments(journal))
    fresh = {
        name: segment
        for name, segment in live.items()
        if name not in base.segments or name in retracted
    }
    seen_at = {
        name: state.segments[name].seen_at if name in state.segments else now for name in live
    }
    made = Plan(base, full, live, fresh, {}, retracted, seen_at)
    for name, segment in list(fresh.items()):
        reason = refusal(segment)
        if reason is not None:
            made.refuse(name, *reason)
    return made


def _retracted(base: State, live: dict[str, Segment], gone: set[str]) -> dict[str, SegmentState]:
    """Also the doubles of segments that go: they are not doubles any more."""
    names = {name for name in base.segments if name in gone}
    for name, known in base.segments.items():
        now = live.get(name)
        if known.refused and now and (now.size, now.modified) != (known.size, known.modified):
            names.add(name)
        if known.duplicate_of in names or known.duplicate_of in gone:
            names.add(name)
    return {name: base.segments[name] for name in names}
