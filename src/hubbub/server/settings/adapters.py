"""The keys of adapters to people and tools."""

from __future__ import annotations

from pathlib import Path

import msgspec


class Adapters(msgspec.Struct, frozen=True, kw_only=True):
    """Adapters that reach people and tools; which of them a hub uses is a setting of the hub."""

    path: Path | None = None
    """Folder with Python files that declare adapters of your own. They run inside the hub, with all
    that the hub may do; without it there are those that come with the hub."""
    files: Path | None = None
    """Folder in which adapters of the kind `folder` read, in a folder for each hub; without it they
    read nothing."""
