"""Orders reads that fill a cache: the result of an older read never replaces that of a newer
one."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager


class ReadOrder:
    """Reads of a store may end in any order. A change is followed by a read that begins after the
    change was stored, so the read that began last is right, whenever it ends."""

    def __init__(self) -> None:
        self._begun = 0
        self._under_way = 0
        self._applied: dict[Hashable, int] = {}
        """The newest read applied to each key, while reads are in progress."""
        self._applied_to_all = 0

    @property
    def idle(self) -> bool:
        return not self._under_way

    @contextmanager
    def read(self) -> Iterator[Read]:
        """A context for a read and the application of its result."""
        self._begun += 1
        self._under_way += 1
        try:
            yield Read(self, self._begun)
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._applied.clear()

    def newest(self, key: Hashable) -> int:
        return max(self._applied_to_all, self._applied.get(key, 0))

    def note(self, number: int, keys: tuple[Hashable, ...]) -> None:
        if not keys:
            self._applied_to_all = max(self._applied_to_all, number)
        for key in keys:
            self._applied[key] = max(number, self._applied.get(key, 0))


class Read:
    def __init__(self, order: ReadOrder, number: int) -> None:
        self._order = order
        self._number = number

    def outdated(self, key: Hashable) -> bool:
        """Whether the result of a later read was already applied to the key."""
        return self._order.newest(key) > self._number

    def applied(self, *keys: Hashable) -> None:
        """Records that the result was applied to these keys; none: to all."""
        self._order.note(self._number, keys)
