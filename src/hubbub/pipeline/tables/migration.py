"""Migrates warehouses of earlier versions: tables are recomputed from the journal, then the old
ones are deleted."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import msgspec

_OLD: Final = ("silver", "gold", "quarantine", "state")


def replace_old_tables(warehouse: Path, segments: Collection[str]) -> str | None:
    """Deletes the tables of an earlier version; returns a sentence about that, or None if there are
    none. `segments` are in the new tables: old tables with further segments are kept."""
    state = warehouse / "state" / "state.json"
    if not state.exists():
        return None
    known: dict[str, dict[str, Any]] = msgspec.json.decode(state.read_bytes()).get("segments", {})
    lost = [name for name, one in known.items() if one.get("rows") and name not in segments]
    if lost:
        return (
            f"the tables of an earlier version hold {len(lost):,} segments that the journal no"
            f" longer has ({min(lost)} …); they stay in {warehouse}/silver and gold as they are"
        )
    for name in _OLD:
        folder = warehouse / name
        for path in folder.iterdir() if folder.exists() else ():
            if not (folder / "_delta_log").exists() or path.name.startswith("hour="):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        if folder.exists() and not any(folder.iterdir()):
            folder.rmdir()
    return "the tables of an earlier version were made again from the journal, and removed"
