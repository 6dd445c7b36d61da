"""Settings of the journal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

_MEGABYTE = 1024 * 1024


class JournalSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The record of what happened in the hubs, for the data pipeline."""

    enabled: bool = True
    """Enables the journal."""
    path: Path | None = None
    """Folder of the segments; default: `journal` in `storage.path`."""
    segment_bytes: Annotated[int, Meta(ge=64 * 1024, le=4096 * _MEGABYTE)] = 64 * _MEGABYTE
    """Size at which a segment is closed and the next one begun."""
    segment_seconds: Annotated[float, Meta(ge=1, le=86_400)] = 300.0
    """Age at which a segment is closed."""
    max_buffered_bytes: Annotated[int, Meta(ge=64 * 1024, le=4096 * _MEGABYTE)] = 16 * _MEGABYTE
    """Memory for events that wait for the disk. When it is full, further events are dropped and
    counted, except for stored messages."""
    min_free_bytes: Annotated[int, Meta(ge=0, le=2**50)] = 256 * _MEGABYTE
    """Disk space that the journal leaves free."""
    seal: bool = True
    """Convert closed segments to Parquet at once, in a separate process, if Arrow is installed;
    otherwise `hubbub pipeline run` does it."""
    archive: str | None = None
    """URL, such as s3://bucket/journal, where sealed segments of all nodes are collected; any URL
    that Arrow can write. Keys come from the environment."""
    retention_days: Annotated[float, Meta(ge=0, le=36_500)] = 0.0
    """Age at which sealed segments are deleted, if the hub seals them; 0 keeps them. `hubbub
    journal prune` deletes them, too."""
