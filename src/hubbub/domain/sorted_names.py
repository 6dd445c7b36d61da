"""Sorted names and other items, so that a page of a long list costs as much as the page.

Items are held in blocks of bounded length: an insertion or removal shifts at most one block, and a
search scans the blocks. The text of a block of names is cached for searches until a name changes:
comparing 100,000 names one by one costs ten times as much as searching their text.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

_BLOCK = 512
_COMMON = 64
"""A search text that occurs more often than once per so many characters is searched line by
line."""
_BEHIND_ALL = "\U0010ffff"


T = TypeVar("T")


class SortedItems(Generic[T]):
    """A set of items sorted by key. Keys are distinct and never change."""

    __slots__ = ("_blocks", "_count", "_key", "_lasts", "_texts")

    def __init__(self, key: Callable[[T], Any] | None = None) -> None:
        self._key = key
        """None: the item is its own key."""
        self._blocks: list[list[T]] = []
        self._lasts: list[Any] = []
        """The last key of each block."""
        self._texts: list[str | None] = []
        """The cached text of each block, one name per line; None if it is outdated."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, item: T) -> None:
        """`item` must not be in the set."""
        blocks, lasts, key = self._blocks, self._lasts, self._key
        own = item if key is None else key(item)
        self._count += 1
        if not blocks:
            blocks.append([item])
            lasts.append(own)
            self._texts.append(None)
            return
        at = bisect_left(lasts, own)
        if at == len(lasts):
            at -= 1
            blocks[at].append(item)
            lasts[at] = own
        else:
            insort(blocks[at], item, key=key)  # type: ignore[arg-type]
        self._texts[at] = None
        block = blocks[at]
        if len(block) > 2 * _BLOCK:
            self._texts.insert(at, None)
            blocks.insert(at, block[:_BLOCK])
            lasts.insert(at, block[_BLOCK - 1] if key is None else key(block[_BLOCK - 1]))
            del block[:_BLOCK]

    def remove(self, item: T) -> None:
        """An item that is not in the set is ignored."""
        key = self._key
        own = item if key is None else key(item)
        at = bisect_left(self._lasts, own)
        if at == len(self._lasts):
            return
        block = self._blocks[at]
        place = bisect_left(block, own, key=key)  # type: ignore[type-var, arg-type]
        if block[place] != item:
            return
        self._count -= 1
        self._texts[at] = None
        del block[place]
        if not block:
            del self._blocks[at], self._lasts[at], self._texts[at]
        elif place == len(block):
            self._lasts[at] = block[-1] if key is None else key(block[-1])

    def backwards(self, before: Any | None) -> Iterator[T]:
        """The items with keys less than `before` (None: all), in descending order. The set must not
        change while the iterator runs."""
        at = len(self._lasts) - 1 if before is None else bisect_left(self._lasts, before)
        for block in self._blocks[at::-1] if self._blocks else ():
            end = len(block) if before is None else bisect_left(block, before, key=self._key)
            yield from reversed(block[:end])


class SortedNames(SortedItems[str]):
    """A sorted set of names."""

    __slots__ = ()

    def rank(self, name: str) -> int:
        """The number of names less than `before`."""
        at = bisect_left(self._lasts, name)
        before = sum(map(len, self._blocks[:at]))
        return before if at == len(self._blocks) else before + bisect_left(self._blocks[at], name)

    def count(self, prefix: str) -> int:
        """The number of names that begin with `prefix`."""
        if not prefix:
            return self._count
        return self.rank(prefix + _BEHIND_ALL) - self.rank(prefix)

    def behind(self, after: str, prefix: str, limit: int) -> list[str]:
        """The first names greater than `after` that begin with `prefix`, at most `limit`."""
        found: list[str] = []
        start = max(after, prefix)
        at = bisect_left(self._lasts, start)
        for block in self._blocks[at:]:
            place = bisect_right(block, after) if after >= prefix else bisect_left(block, prefix)
            part = block[place : place + limit - len(found)]
            found += part
            if len(found) == limit or (part and not part[-1].startswith(prefix)):
                break
        return [name for name in found if name.startswith(prefix)]

    def lines(self, start: str) -> tuple[str, str] | None:
        """The block with the first name not less than `start`: its names as lines, and the start of
        the next block. None if there is no such name."""
        at = bisect_left(self._lasts, start)
        if at == len(self._lasts):
            return None
        text = self._texts[at]
        if text is None:
            text = self._texts[at] = "\n".join(self._blocks[at])
        return text, self._lasts[at] + "\0"


def holding(lines: str, text: str) -> list[str]:
    """The lines that contain `text`."""
    if lines.count(text) * _COMMON > len(lines):
        return [line for line in lines.split("\n") if text in line]
    found: list[str] = []
    at = lines.find(text)
    while at >= 0:
        start, end = lines.rfind("\n", 0, at) + 1, lines.find("\n", at)
        end = end if end >= 0 else len(lines)
        if text in lines[start:end]:
            found.append(lines[start:end])
        at = lines.find(text, end)
    return found
