"""How far the tables lag behind the journal. Needs neither Spark nor Java."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow.compute as pc

from hubbub.pipeline.sources.segments import sealed_segments
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.tables.rounds import all_rounds, is_alive, last_of, read_lease
from hubbub.pipeline.tables.snapshot import Snapshot


def status_of(warehouse: Location, journal: Location, now: float) -> dict[str, Any] | None:
    """None if no round ever began. `lag_seconds` is the age of the oldest sealed segment that is
    not yet in the tables. `now` is in seconds since 1970."""
    rounds = all_rounds(warehouse)
    if not rounds:
        return None
    done, last, lease = last_of(rounds), rounds[-1], read_lease(warehouse)
    snapshot = Snapshot(warehouse, done)
    known = snapshot.read("segments", columns=["segment", "rows"])
    names = set(known["segment"].to_pylist())
    waiting = [one for name, one in sealed_segments(journal).items() if name not in names]
    oldest = min((one.modified / 1e9 for one in waiting), default=now)
    runs = is_alive(warehouse, last)
    return {
        "round": done.round if done else None,
        "finished": _iso(done.finished if done else None),
        "age_seconds": round(now - done.finished / 1e6) if done and done.finished else None,
        "segments": done.segments if done else 0,
        "events": done.events if done else 0,
        "total_events": pc.sum(known["rows"]).as_py() or 0,
        "latest_event": _iso(done.latest if done else None),
        "waiting_segments": len(waiting),
        "waiting_bytes": sum(one.size for one in waiting),
        "lag_seconds": round(now - oldest),
        "running": last.round if runs else None,
        "running_seconds": round(now - last.began / 1e6) if runs else None,
        "step": lease.step if runs and lease and lease.round == last.round else None,
    }


def _iso(microseconds: int | None) -> str | None:
    if microseconds is None:
        return None
    return datetime.fromtimestamp(microseconds / 1e6, UTC).isoformat()
