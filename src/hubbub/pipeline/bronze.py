"""Bronze: the journal's sealed segments as Arrow reads them, and what makes a record unfit.

Runs in Spark's tasks: nothing here needs Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hubbub.domain import journal
from hubbub.domain.journal import JournalEvent

NEWER_VERSION: Final = "newer_version"
UNKNOWN_KIND: Final = "unknown_kind"
INCOMPLETE: Final = "incomplete"
BAD_TIME: Final = "bad_time"
FUTURE: Final = "future"

HOUR_MICROSECONDS: Final = 3_600_000_000
_LAST_TIME: Final = 253_402_300_799_999_999
"""The end of the year 9999, which is as far as times are written the usual way."""

_TYPES: Final[dict[str, pa.DataType]] = {
    "str": pa.string(),
    "int": pa.int64(),
    "bool": pa.bool_(),
    "bytes": pa.binary(),
    "float": pa.float64(),
    "dict[str, str]": pa.map_(pa.string(), pa.string()),
    "dict[int, int]": pa.map_(pa.int32(), pa.int64()),
}

EVENTS: Final = pa.schema(
    [
        ("schema_version", pa.int32()),
        ("offset", pa.int64()),
        *(
            (name, _TYPES[kind.removesuffix(" | None")])
            for name, kind in JournalEvent.__annotations__.items()
        ),
    ]
)
"""As segments are written. A column that an older segment does not have reads as null."""

_NEEDS: Final = {
    journal.PUBLISHED: ("channel", "message_id"),
    journal.DELIVERED: ("channel",),
    journal.SESSION_OPENED: ("session",),
    journal.SESSION_CLOSED: ("session",),
    journal.SUBSCRIBED: ("channel", "session"),
    journal.UNSUBSCRIBED: ("channel", "session"),
}
"""What an event of a kind cannot be without."""

JUDGED: Final = (
    "schema_version",
    "offset",
    "kind",
    "at",
    "hub",
    "channel",
    "session",
    "message_id",
)
"""The columns that a verdict looks at."""


class Source(msgspec.Struct, frozen=True):
    """A segment to read, and the latest time that is believed of its events."""

    name: str
    path: Path
    size: int
    limit: int
    fit: bool = False
    """It is known that all of its records are."""


def batches(source: Source, columns: Sequence[str] = EVENTS.names) -> Iterator[pa.Table]:
    """The events of a segment, some ten thousand at a time. Raises what Arrow raises where it is
    damaged."""
    with pq.ParquetFile(source.path, page_checksum_verification=True) as file:
        there = set(file.schema_arrow.names)
        wanted = [name for name in columns if name in there]
        for group in range(file.num_row_groups):
            found = file.read_row_group(group, columns=wanted, use_threads=False)
            yield pa.Table.from_arrays(
                [
                    found[name].cast(EVENTS.field(name).type)
                    if name in there
                    else pa.nulls(len(found), EVENTS.field(name).type)
                    for name in columns
                ],
                names=list(columns),
            )


def verdict(events: pa.Table, limit: int) -> pa.ChunkedArray:
    """Why a record cannot be taken, as a word; null if it can."""
    kind, at = events["kind"], events["at"]
    incomplete = pc.is_null(events["hub"])
    for needy, columns in _NEEDS.items():
        is_needy = pc.fill_null(pc.equal(kind, needy), False)
        for column in columns:
            incomplete = pc.or_(incomplete, pc.and_(is_needy, pc.is_null(events[column])))
    unknown = [pc.is_null(events[name]) for name in ("kind", "at", "offset")]
    cases = {
        NEWER_VERSION: pc.greater(events["schema_version"], journal.SCHEMA_VERSION),
        INCOMPLETE: pc.or_(pc.or_(unknown[0], unknown[1]), unknown[2]),
        UNKNOWN_KIND: pc.invert(pc.is_in(kind, pa.array(sorted(journal.KINDS)))),
        BAD_TIME: pc.or_(pc.less(at, 0), pc.greater(at, _LAST_TIME)),
        f"{INCOMPLETE} ": incomplete,
        FUTURE: pc.greater(at, limit),
    }
    given = [pc.fill_null(case, False) for case in cases.values()]
    if not any(pc.any(case).as_py() for case in given):
        return pa.chunked_array([pa.nulls(len(events), pa.string())])
    which = pa.StructArray.from_arrays(
        [_whole(case) for case in given], names=[str(number) for number in range(len(given))]
    )
    words = [pa.scalar(word.strip()) for word in cases]
    return pa.chunked_array([pc.case_when(which, *words)])


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def hour_indexes(events: pa.Table) -> pa.ChunkedArray:
    """The hours of events, counted from 1970."""
    return pc.divide(events["at"], HOUR_MICROSECONDS)


def hour_name(index: int) -> str:
    """The partition of an hour that is counted from 1970."""
    return datetime.fromtimestamp(index * 3600, UTC).strftime("%Y-%m-%dT%H")


def recent(hours: Collection[str], count: int) -> set[str]:
    """Those of the last `count` hours up to the newest one; there must be one."""
    newest = datetime.strptime(max(hours), "%Y-%m-%dT%H")
    oldest = f"{newest - timedelta(hours=count):%Y-%m-%dT%H}"
    return {hour for hour in hours if hour > oldest}
