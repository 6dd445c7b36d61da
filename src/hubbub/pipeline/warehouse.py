"""The warehouse: its folders, what is committed in them, and how a change is committed.

    silver/{table}/hour=…/*.parquet
    gold/{table}/hour=…|day=…/*.parquet, or gold/{table}/*.parquet
    quarantine/hour=…/*.parquet
    state/state.json   the commit (`state.py`); also the lock, the log and drafts

A change is written to a draft folder, moved to its place under names never used before, and
committed by replacing the state. Files that a commit replaces are removed after it. So a crash
leaves at worst files that no state names; the next change removes them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hubbub.pipeline import state as states
from hubbub.pipeline.locking import alone
from hubbub.pipeline.state import Partition, State

SILVER_TABLES: Final = (
    "messages",
    "deliveries",
    "sessions",
    "subscriptions",
    "receipts",
    "attempts",
    "drops",
)
QUARANTINE_TABLE: Final = "quarantine"


@dataclass(frozen=True)
class Change:
    """New files of one table, in a draft folder with one folder for each partition."""

    table: str
    draft: Path
    column: str | None
    """The partition column; None: the table has one partition, the empty word."""
    replaced: frozenset[Partition] = frozenset()
    """These partitions hold only the new files from now on; others keep what they have."""


class Warehouse:
    """Paths and commits. Reading needs no lock; changing does."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.state_folder = self.path / "state"
        self.drafts = self.state_folder / "drafts"
        self.state = State()

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Alone, with the newest state, and without the remains of a run that was killed. Raises
        `PipelineBusy`, `WarehouseUnreadable`."""
        with alone(self.state_folder / "lock"):
            self.load()
            if self.drafts.exists():
                self._sweep()
            self.drafts.mkdir(mode=0o700)
            try:
                yield
            finally:
                shutil.rmtree(self.drafts, ignore_errors=True)

    def load(self) -> State:
        """The newest committed state."""
        self.state = states.load(self.state_folder / "state.json")
        return self.state

    # -- where things are -----------------------------------------------------------------------

    def folder(self, table: str) -> Path:
        if table == QUARANTINE_TABLE:
            return self.path / table
        return self.path / ("silver" if table in SILVER_TABLES else "gold") / table

    def partitions(self, table: str) -> set[Partition]:
        return set(self.state.tables.get(table, {}))

    def files(self, table: str, partitions: Iterable[Partition] | None = None) -> list[Path]:
        """The committed files of a table, of all partitions or of these."""
        known = self.state.tables.get(table, {})
        wanted = known if partitions is None else [name for name in partitions if name in known]
        folder = self.folder(table)
        return [
            folder / _partition_folder(partition) / name
            for partition in sorted(wanted)
            for name in known[partition]
        ]

    # -- changing -------------------------------------------------------------------------------

    def draft(self, name: str) -> Path:
        """Where a change is written before it is committed; it must not be there yet."""
        return self.drafts / name

    def clear_drafts(self) -> None:
        shutil.rmtree(self.drafts)
        self.drafts.mkdir(mode=0o700)

    def commit(self, changes: Iterable[Change], state: State) -> None:
        """`state` is what should hold apart from `tables`, which follows from the changes."""
        tables = {table: dict(files) for table, files in self.state.tables.items()}
        for change in changes:
            tables[change.table] = self._place(change, tables.get(change.table, {}))
        before = self._all_files()
        state.tables = tables
        state.round = self.state.round + 1
        state.committed_at = time.time_ns() // 1000
        states.store(self.state_folder / "state.json", state)
        self.state = state
        for path in before - self._all_files():
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # other files are in it
                path.parent.rmdir()

    def _place(
        self, change: Change, known: Mapping[Partition, list[str]]
    ) -> dict[Partition, list[str]]:
        files = {name: list(kept) for name, kept in known.items() if name not in change.replaced}
        folders = {self.folder(change.table)}
        for draft in sorted(change.draft.rglob("*.parquet")):
            partition = _partition_of(draft.parent.name, change.column)
            target = self.folder(change.table) / _partition_folder(partition)
            target.mkdir(mode=0o700, parents=True, exist_ok=True)
            _sync_file(draft)
            draft.rename(target / draft.name)
            folders.add(target)
            files.setdefault(partition, []).append(draft.name)
        for folder in folders:
            if folder.exists():
                states.sync_folder(folder)
        return files

    def _all_files(self) -> set[Path]:
        return {path for table in self.state.tables for path in self.files(table)}

    def _sweep(self) -> None:
        """Remove what no state names: drafts, and files moved before a commit that never came."""
        shutil.rmtree(self.drafts)
        named = self._all_files()
        for layer in ("silver", "gold", QUARANTINE_TABLE):
            for path in (self.path / layer).rglob("*.parquet"):
                if path not in named:
                    path.unlink(missing_ok=True)


def _partition_of(folder: str, column: str | None) -> Partition:
    return "" if column is None else folder.removeprefix(f"{column}=")


def _partition_folder(partition: Partition) -> str:
    """`hour=2026-11-15T22`, `day=2026-11-15`, or nothing."""
    if not partition:
        return ""
    return f"{'hour' if 'T' in partition else 'day'}={partition}"


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
