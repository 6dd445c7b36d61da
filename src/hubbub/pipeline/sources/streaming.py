"""Segments as a Spark stream: each once, by the names in the checkpoint of a query."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Generic, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

from hubbub.domain.replacements import Lineage

Found = TypeVar("Found")


class SegmentStream(DataSourceStreamReader, SupportsTriggerAvailableNow, Generic[Found]):
    """New segments in the order of their names. The offset holds the names of read segments that
    still exist; names are never reused. A replacement counts as read if all its predecessors were
    read. If only some were, all its rows are returned, some of them again."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._until: Collection[str] | None = None

    @abstractmethod
    def state(self) -> tuple[Mapping[str, Found], Lineage]:
        """The current segments by name, and their replacement history."""

    @abstractmethod
    def splits(self, segments: Sequence[Found]) -> Sequence[InputPartition]: ...

    def initialOffset(self) -> dict[str, Any]:
        return {"read": []}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxFiles(self._most)

    def prepareForTriggerAvailableNow(self) -> None:
        self._until = self.state()[0]

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        there, lineage = self.state()
        before = set(start["read"])
        known = {name for name in there if lineage.covers(before, name)}
        new = sorted(there.keys() - known)
        if self._until is not None:
            new = [name for name in new if name in self._until]
        if isinstance(limit, ReadMaxFiles):
            new = new[: limit.max_files]
        return {"read": sorted([*known, *new])} if new else start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """If a batch is read again after a crash, one of its segments may have been replaced."""
        there, lineage = self.state()
        before = set(start["read"])
        names = [name for name in end["read"] if not lineage.covers(before, name)]
        new = {found for name in names for found in lineage.successors(name)}
        return self.splits([there[name] for name in sorted(new & there.keys())])
