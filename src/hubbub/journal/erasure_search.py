"""Finds a user's data in the journal."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.journal.erasure_rules import MAPS, NAMES, ErasureSubject
from hubbub.journal.records import read_events

Mask = npt.NDArray[np.bool_]


def touched(batch: pa.RecordBatch, subject: ErasureSubject) -> Mask:
    """Marks the rows with data of the user."""
    mask = np.zeros(batch.num_rows, bool)
    channels = pa.array(sorted(subject.channels))
    for name in NAMES:
        column = batch.column(name)
        mask |= _is_user(column, subject) | flags(pc.is_in(column, channels))
    for name in MAPS:
        mask |= _in_map(batch.column(name), subject)
    if subject.sessions:
        known = pa.array(sorted(subject.sessions))
        mask |= flags(pc.is_in(batch.column("session"), known))
    for channel, subscription in subject.subscriptions:
        same = flags(pc.equal(batch.column("subscription"), subscription))
        if channel is not None:
            same &= flags(pc.equal(batch.column("channel"), channel))
        mask |= same
    return mask & flags(pc.equal(batch.column("hub"), subject.hub))


def flags(found: pa.Array) -> Mask:
    return np.asarray(found.fill_null(False).to_numpy(zero_copy_only=False), bool)


def _is_user(column: pa.Array, subject: ErasureSubject) -> Mask:
    """Marks values that are the user's id or address, like `ErasureSubject.is_user`."""
    names = pa.array([subject.user, subject.address])
    sessions = pc.starts_with(column, f"{subject.address}/")
    return flags(pc.is_in(column, names)) | flags(sessions)


def _in_map(column: pa.MapArray, subject: ErasureSubject) -> Mask:
    """Marks rows whose map contains the user as a key or a value."""
    offsets = column.offsets.to_numpy()
    hit = _is_user(column.items, subject) | _is_user(column.keys, subject)
    before = np.concatenate(([0], np.cumsum(hit)))
    return np.asarray(before[offsets[1:]] > before[offsets[:-1]], bool)


def hours_of(batch: pa.RecordBatch, mask: Mask) -> set[str]:
    """The hours of the marked rows; the tables are partitioned by hour."""
    hours = np.unique(batch.column("at").to_numpy(zero_copy_only=False)[mask] // 3_600_000_000)
    return {
        datetime.fromtimestamp(int(hour) * 3600, UTC).strftime("%Y-%m-%dT%H")
        for hour in hours.tolist()
        if hour == hour  # an event without a time has no hour
    }


def in_raw(path: Path, subject: ErasureSubject) -> int:
    """How many events of an unsealed segment have data of the user."""
    try:
        events = list(read_events(path))
    except FileNotFoundError:
        return 0  # sealed meanwhile
    rows = (msgspec.structs.asdict(event) for event in events if event.hub == subject.hub)
    return sum(
        subject.owns(row)
        or any(subject.is_user(row[name]) or row[name] in subject.channels for name in NAMES)
        for row in rows
    )
