"""What a round does to tables: files that are added, and files that are removed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from hubbub.pipeline.catalogue import SCRATCH
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.tables.staging import StagedFile


@dataclass
class Changes:
    added: dict[str, list[StagedFile]] = field(default_factory=lambda: defaultdict(list))
    removed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, files: Iterable[StagedFile]) -> None:
        for file in files:
            self.added[file.table].append(file)

    def remove(self, table: str, paths: Iterable[str]) -> None:
        self.removed[table].update(paths)

    def paths(self, table: str) -> list[str]:
        """Of the files that are added to a table."""
        return [file.path for file in self.added.get(table, ())]

    def tables(self) -> list[str]:
        """Those that change, in an order that is always the same."""
        touched = set(self.added) | {name for name, some in self.removed.items() if some}
        return sorted(touched - set(SCRATCH))


def drop_scratch(warehouse: Location) -> None:
    """Also what killed rounds left. The caller holds the round, so nobody else needs it."""
    for table in SCRATCH:
        files, folder = (warehouse / table).open()
        files.delete_dir_contents(folder, missing_dir_ok=True)
