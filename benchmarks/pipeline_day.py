"""`python -m benchmarks.pipeline_day FOLDER`: a day of a busy hub as sealed segments of a journal.

The same seed gives the same day. A few hubs, channels of which few are loud, sessions that come and
go with the hour, deliveries with their latencies, producers that number what they send (and now and
then lose or double one), threads, and texts whose words are not equally common.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks import pipeline_events as events
from benchmarks.pipeline_events import World
from hubbub.domain import journal
from hubbub.journal.parquet import SCHEMA

EVENTS = 5_000_000
SEED = 7
START = 1_762_992_000_000_000
"""Thursday 2025-11-13, midnight UTC, in microseconds."""
HOUR = 3_600_000_000
LATE_SHARE = 0.01
"""How much of the day, its end, may be written apart: what a next run finds new."""

# How busy each hour of the day is.
_CURVE = np.array(
    [3, 2, 2, 1, 1, 2, 3, 5, 8, 9, 9, 8, 7, 8, 9, 9, 8, 7, 7, 8, 8, 7, 6, 4], dtype=float
)
_SHARES = {
    journal.PUBLISHED: 0.40,
    journal.DELIVERED: 0.40,
    journal.RECEIVED: 0.014,
    journal.ACKNOWLEDGED: 0.014,
    journal.EXPIRED: 0.001,
    journal.DEAD_LETTERED: 0.001,
    journal.WEBHOOK_ATTEMPT: 0.01,
    journal.ADAPTER_ATTEMPT: 0.01,
    journal.DROPPED: 0.01,
    journal.TELEMETRY_LOST: 0.001,
}
_SESSIONS_SHARE = 0.03  # opened, and about as many closed
_SUBSCRIPTIONS_SHARE = 0.04

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Day:
    """What was written."""

    events: int
    segments: tuple[Path, ...]
    bytes: int


def write_day(
    sealed: Path, count: int = EVENTS, seed: int = SEED, late: Sequence[Path] = ()
) -> Day:
    """Write a day of about `count` events into a folder `sealed`, but the end of it into the
    folders `late`: `LATE_SHARE` of the day into each, the last share into the last one."""
    world = World.make(
        seed, int(count * _SESSIONS_SHARE), int(count * _SUBSCRIPTIONS_SHARE), START, _CURVE
    )
    share = int(LATE_SHARE * HOUR * _CURVE.sum() / _CURVE[-1])
    ends = [START + 24 * HOUR - share * left for left in range(len(late), -1, -1)]
    written, rows = [], 0
    for hour, table in enumerate(_hours(world, count, seed)):
        start = 0
        for folder, end in zip((sealed, *late), ends, strict=True):
            stop = pc.sum(pc.less(table["at"], end)).as_py() or 0
            part = table.slice(start, stop - start)
            start = stop
            written += _write_hour(folder, part, hour, seed)
            rows += len(part)
    return Day(rows, tuple(written), sum(path.stat().st_size for path in written))


def _write_hour(folder: Path, table: pa.Table, hour: int, seed: int) -> list[Path]:
    """Each node writes its own."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for node in events.NODES:
        ours = table.filter(pc.equal(table["node"], node))
        if len(ours):
            path = folder / f"{_name(node, hour, f'{folder.name} {seed}')}.parquet"
            write_segment(ours, path)
            written.append(path)
    return written


def _hours(world: World, count: int, seed: int) -> Iterator[pa.Table]:
    shares = _CURVE / _CURVE.sum()
    for hour, share in enumerate(shares):
        random = np.random.default_rng([seed, hour])
        start = START + hour * HOUR
        parts = [
            events.MAKERS[kind](world, random, _times(random, start, int(count * share * part)))
            for kind, part in _SHARES.items()
        ]
        parts += events.sessions(world, start, start + HOUR)
        parts += events.subscriptions(world, start, start + HOUR)
        table = pa.concat_tables([events.complete(part) for part in parts])
        yield table.take(pc.sort_indices(table["at"]))


def _times(random: np.random.Generator, start: int, count: int) -> Integers:
    return np.sort(random.integers(start, start + HOUR, count))


def _name(node: str, hour: int, what: str) -> str:
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime((START + (hour + 1) * HOUR) / 1e6))
    return f"{node}-{stamp}-{crc32(f'{node} {hour} {what}'.encode()):08x}"


def write_segment(table: pa.Table, path: Path) -> None:
    offsets = pa.array(np.arange(len(table), dtype=np.int64))
    whole = table.set_column(SCHEMA.get_field_index("offset"), SCHEMA.field("offset"), offsets)
    draft = path.with_suffix(".draft")
    pq.write_table(whole, draft, compression="zstd", row_group_size=128 * 1024)
    draft.rename(path)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipeline_day", description=__doc__)
    parser.add_argument("folder", type=Path, help="the journal's folder; segments go to sealed/")
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    started = time.monotonic()
    day = write_day(options.folder / "sealed", options.events, options.seed)
    seconds = time.monotonic() - started
    print(
        f"{day.events:,} events in {len(day.segments)} segments, {day.bytes / 1e6:,.0f} MB,"
        f" in {seconds:.0f} s"
    )


if __name__ == "__main__":
    main()
