"""Events in segments, and their validation. Needs Arrow only."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.domain import journal
from hubbub.domain.journal import JournalEvent
from hubbub.pipeline.grouping import whole

NEWER_VERSION: Final = "newer_version"
UNKNOWN_KIND: Final = "unknown_kind"
INCOMPLETE: Final = "incomplete"
BAD_TIME: Final = "bad_time"
FUTURE: Final = "future"

_LAST_TIME: Final = 253_402_300_799_999_999
"""The end of the year 9999, the last time with a four-digit year."""

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
"""The schema of segments. A column that an older segment lacks reads as null."""

IDENTITY: Final = (
    *("offset", "at", "kind", "hub", "node", "channel", "session", "message_id", "serial"),
)
"""Columns that decide whether two segments have the same events."""
Hashes = npt.NDArray[np.uint64]
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_ROUNDS: Final = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))

_NEEDS: Final = {
    journal.PUBLISHED: ("channel", "message_id"),
    journal.DELIVERED: ("channel",),
    journal.SESSION_OPENED: ("session",),
    journal.SESSION_CLOSED: ("session",),
    journal.SUBSCRIBED: ("channel", "session"),
    journal.UNSUBSCRIBED: ("channel", "session"),
}
"""Required columns by kind of event."""


def verdict(events: pa.Table, limit: int) -> pa.Array | None:
    """The rejection code of each record, null for valid ones; None if all are valid. `limit` is the
    latest plausible time, in microseconds."""
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
    given = [whole(pc.fill_null(case, False)) for case in cases.values()]
    if not any(pc.any(case).as_py() for case in given):
        return None
    which = pa.StructArray.from_arrays(given, names=[str(number) for number in range(len(given))])
    return pc.case_when(which, *(pa.scalar(word.strip()) for word in cases))


# -- what tells segments apart ---------------------------------------------------------------------


def summed_hashes(events: pa.Table) -> int:
    """The sum of the events' hashes modulo 2**64, independent of their packing."""
    total = np.zeros(len(events), np.uint64)
    with np.errstate(over="ignore"):
        for place, name in enumerate(IDENTITY):
            column = events[name].combine_chunks()
            total += _mixed(_hashes(column) + np.uint64(place) * _STEP)
        return int(np.add.reduce(_mixed(total), dtype=np.uint64))


def _hashes(column: pa.Array) -> Hashes:
    if pa.types.is_integer(column.type):
        numbers: Hashes = column.fill_null(-1).to_numpy().astype(np.int64).view(np.uint64)
        return numbers
    codes = column.dictionary_encode()
    places = codes.indices.fill_null(len(codes.dictionary)).to_numpy()
    found: Hashes = np.append(_of_texts(codes.dictionary), np.uint64(0))[places]
    return found


def _of_texts(texts: pa.Array) -> Hashes:
    """A polynomial hash of each text's bytes, vectorised over texts."""
    ends = np.frombuffer(texts.buffers()[1], np.int32)[: len(texts) + 1].astype(np.int64)
    written = texts.buffers()[2]
    if written is None or not len(texts):
        return np.zeros(len(texts), np.uint64)
    letters = np.frombuffer(written, np.uint8)[: ends[-1]].astype(np.uint64)
    lengths = np.diff(ends)
    place = np.arange(len(letters)) - np.repeat(ends[:-1], lengths)
    powers = np.cumprod(np.full(int(lengths.max(initial=0)) + 1, _STEP))
    summed = np.concatenate(([np.uint64(0)], np.cumsum((letters + np.uint64(1)) * powers[place])))
    found: Hashes = summed[ends[1:]] - summed[ends[:-1]]
    return found


def _mixed(values: Hashes) -> Hashes:
    """Mixes the bits of each value (the finalizer of SplitMix64)."""
    for shift, factor in _ROUNDS:
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    return values ^ (values >> np.uint64(31))
