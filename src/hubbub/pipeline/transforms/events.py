"""Events as they are in segments, and what makes one unfit. Needs Arrow only."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from hubbub.domain import journal
from hubbub.domain.journal import JournalEvent

NEWER_VERSION: Final = "newer_version"
UNKNOWN_KIND: Final = "unknown_kind"
INCOMPLETE: Final = "incomplete"
BAD_TIME: Final = "bad_time"
FUTURE: Final = "future"

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

IDENTITY: Final = (
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
"""Columns that tell whether two segments hold the same events."""

_NEEDS: Final = {
    journal.PUBLISHED: ("channel", "message_id"),
    journal.DELIVERED: ("channel",),
    journal.SESSION_OPENED: ("session",),
    journal.SESSION_CLOSED: ("session",),
    journal.SUBSCRIBED: ("channel", "session"),
    journal.UNSUBSCRIBED: ("channel", "session"),
}
"""Columns that an event of a kind must have."""


def verdict(events: pa.Table, limit: int) -> pa.Array | None:
    """Why each record cannot be taken, as a word, null where it can; None if all can. `limit` is
    the latest time that is believed, in microseconds."""
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
    given = [_flags(case) for case in cases.values()]
    if not any(pc.any(case).as_py() for case in given):
        return None
    which = pa.StructArray.from_arrays(given, names=[str(number) for number in range(len(given))])
    return pc.case_when(which, *(pa.scalar(word.strip()) for word in cases))


def _flags(case: Any) -> pa.Array:
    case = pc.fill_null(case, False)
    return case.combine_chunks() if isinstance(case, pa.ChunkedArray) else case
