"""Names kept in order, so that a page of a long list costs as much as the page.

Names are held in blocks of bounded length: adding or removing one moves at most a block, and a
search looks at block after block. The text of a block is kept once it was searched, until one of
its names changes: to look at each of 100,000 names costs ten times as much as to search their text.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

_BLOCK = 512
_COMMON = 64
"""A text that occurs more often than once in so many characters is searched line by line."""
_BEHIND_ALL = "\U0010ffff"


class SortedNames:
    """A set of names, in order."""

    __slots__ = ("_blocks", "_count", "_lasts", "_texts")

    def __init__(self) -> None:
        self._blocks: list[list[str]] = []
        self._lasts: list[str] = []
        """The last name of each block."""
        self._texts: list[str | None] = []
        """The names of each block in lines, where they were asked for since they changed."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, name: str) -> None:
        """`name` must not be in the set yet."""
        blocks, lasts = self._blocks, self._lasts
        self._count += 1
        if not blocks:
            blocks.append([name])
            lasts.append(name)
            self._texts.append(None)
            return
        at = bisect_left(lasts, name)
        if at == len(lasts):
            at -= 1
            blocks[at].append(name)
            lasts[at] = name
        else:
            insort(blocks[at], name)
        self._texts[at] = None
        block = blocks[at]
        if len(block) > 2 * _BLOCK:
            self._texts.insert(at, None)
            blocks.insert(at, block[:_BLOCK])
            lasts.insert(at, block[_BLOCK - 1])
            del block[:_BLOCK]

    def remove(self, name: str) -> None:
        """A name that is not in the set is ignored."""
        at = bisect_left(self._lasts, name)
        if at == len(self._lasts):
            return
        block = self._blocks[at]
        place = bisect_left(block, name)
        if block[place] != name:
            return
        self._count -= 1
        self._texts[at] = None
        del block[place]
        if not block:
            del self._blocks[at], self._lasts[at], self._texts[at]
        else:
            self._lasts[at] = block[-1]

    def rank(self, name: str) -> int:
        """The number of names before `name`."""
        at = bisect_left(self._lasts, name)
        before = sum(map(len, self._blocks[:at]))
        return before if at == len(self._blocks) else before + bisect_left(self._blocks[at], name)

    def count(self, prefix: str) -> int:
        """The number of names that begin with `prefix`."""
        if not prefix:
            return self._count
        return self.rank(prefix + _BEHIND_ALL) - self.rank(prefix)

    def behind(self, after: str, prefix: str, limit: int) -> list[str]:
        """The first names after `after` that begin with `prefix`, at most `limit`."""
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

    def backwards(self, before: str | None) -> Iterator[str]:
        """The names before `before` (None: all names), in descending order. The set must not
        change while the iterator runs."""
        at = len(self._lasts) - 1 if before is None else bisect_left(self._lasts, before)
        for block in self._blocks[at::-1] if self._blocks else ():
            end = len(block) if before is None else bisect_left(block, before)
            yield from reversed(block[:end])

    def lines(self, start: str) -> tuple[str, str] | None:
        """The block with the first name that is not before `start`: its names in lines, and where
        the next block starts. None where there is no such name."""
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
