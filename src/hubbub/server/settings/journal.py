"""The keys of the journal: what happened in the hubs, for those who ask later."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

_MEGABYTE = 1024 * 1024


class Journal(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in the hubs, written down for the data pipeline."""

    enabled: bool = True
    """Keep a journal at all."""
    path: Path | None = None
    """Folder of the segments; without it, `journal` in `storage.path`."""
    segment_bytes: Annotated[int, Meta(ge=64 * 1024, le=4096 * _MEGABYTE)] = 64 * _MEGABYTE
    """Size at which a segment is closed and the next one begun."""
    segment_seconds: Annotated[float, Meta(ge=1, le=86_400)] = 300.0
    """Age at which a segment is closed."""
    max_buffered_bytes: Annotated[int, Meta(ge=64 * 1024, le=4096 * _MEGABYTE)] = 16 * _MEGABYTE
    """Memory for events that wait for the disk. What comes when it is full is dropped and counted,
    except for stored messages."""
    min_free_bytes: Annotated[int, Meta(ge=0, le=2**50)] = 256 * _MEGABYTE
    """Space on the disk that the journal leaves free for others."""
    seal: bool = True
    """Turn closed segments into Parquet at once, in a process of its own, if Arrow is installed;
    else `hubbub pipeline run` does it."""
    archive: str | None = None
    """Where sealed segments of all nodes are brought together: a URL that Arrow can write, such as
    s3://bucket/journal. Keys come from the environment."""
    retention_days: Annotated[float, Meta(ge=0, le=36_500)] = 0.0
    """Age at which sealed segments are removed, where the hub has them sealed; 0 keeps them.
    `hubbub journal prune` removes them, too."""
