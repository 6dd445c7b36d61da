"""Which sealed segments are current: some replace others.

A writer that rewrites segments (compaction, erasure) writes the new ones under names that begin
with `rewritten-`, then one entry of the manifest, and deletes the old ones last. The entry is the
commit: a reader that uses `current` sees each event exactly once at any moment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, Literal

import msgspec

REWRITTEN: Final = "rewritten"
"""Takes the place of the node in the names of rewritten segments."""

Reason = Literal["erasure", "compaction"]


class Replacement(msgspec.Struct, frozen=True):
    """One entry of the manifest. `by` is empty if nothing is left of the replaced segments."""

    at: str | int = ""
    """A time in ISO 8601, or microseconds since 1970."""
    reason: str = ""
    replaced: tuple[str, ...] = ()
    by: tuple[str, ...] = ()


def current(names: Iterable[str], manifest: Iterable[Replacement]) -> list[str]:
    """The current file names, sorted. Read the manifest before and after listing the files, and
    start again if it changed."""
    replaced: set[str] = set()
    committed: set[str] = set()
    for entry in manifest:
        replaced.update(entry.replaced)
        committed.update(entry.by)
    return sorted(
        name
        for name in names
        if name not in replaced and (name in committed or not is_rewritten(name))
    )


def is_rewritten(name: str) -> bool:
    """Whether compaction or erasure has written the segment. Such a segment is current only once an
    entry of the manifest names it."""
    return name.startswith(f"{REWRITTEN}-")


class Lineage:
    """The replacement history of segments, by names without suffix."""

    def __init__(self, manifest: Iterable[Replacement], suffix: str) -> None:
        self._before: dict[str, set[str]] = {}
        self._after: dict[str, set[str]] = {}
        for entry in manifest:
            old = {name.removesuffix(suffix) for name in entry.replaced}
            new = {name.removesuffix(suffix) for name in entry.by}
            for name in new:
                self._before.setdefault(name, set()).update(old)
            for name in old:
                self._after.setdefault(name, set()).update(new)

    def covers(self, read: Collection[str], name: str) -> bool:
        """Whether the segments in `read` contain all events of a segment."""
        if name in read:
            return True
        before = self._before.get(name)
        return bool(before) and all(self.covers(read, each) for each in before or ())

    def successors(self, name: str) -> set[str]:
        """The segments that now hold the remaining events of a segment; the segment itself if it
        was not replaced."""
        after = self._after.get(name)
        if after is None:
            return {name}
        return {found for each in after for found in self.successors(each)}
