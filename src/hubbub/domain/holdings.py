"""A bound over the bytes that all clients together make a process hold."""

from __future__ import annotations

from collections import defaultdict
from heapq import heapify, heappop, heapreplace
from operator import itemgetter
from typing import Protocol

FREE_BYTES = 4096
"""A holder of no more than this counts as holding nothing: about what a connection costs anyhow."""


class Holder(Protocol):
    """A connection for which bytes wait: of a request that has not ended, or unread."""

    def give_up(self) -> None:
        """End the connection and let go of what it holds."""


class Holdings:
    """Who holds how much, and for which client address. Beyond `limit` the address that holds most
    loses its largest holder, again and again, until a sixteenth of the whole is free: so the price
    of looking at all holders is paid once for many. An address that holds less than another one
    loses nothing."""

    __slots__ = ("_by_address", "_held", "_making_room", "ended", "limit", "total")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self.ended = 0
        """Holders that were made to give up."""
        self._held: dict[Holder, tuple[str, int]] = {}
        self._by_address: dict[str, int] = {}
        self._making_room = False

    def hold(self, holder: Holder, address: str, size: int) -> None:
        """From now on `holder` holds `size` bytes for `address` (see `limits.network_of`). Calls
        `give_up` of any holder, this one included, where that is too much."""
        self.release(holder)
        if size <= FREE_BYTES:
            return
        self._held[holder] = (address, size)
        self._by_address[address] = self._by_address.get(address, 0) + size
        self.total += size
        if self.total > self.limit and not self._making_room:
            self._make_room()

    def release(self, holder: Holder) -> None:
        """The holder holds nothing any more; it need not have held anything."""
        address, size = self._held.pop(holder, ("", 0))
        if not size:
            return
        self.total -= size
        left = self._by_address[address] - size
        if left:
            self._by_address[address] = left
        else:
            del self._by_address[address]

    def _make_room(self) -> None:
        """Holders that give up may make others hold more, since leaving is announced: the total is
        checked again at the end."""
        self._making_room = True
        try:
            while self.total > self.limit:
                self._end_largest(self.limit - self.limit // 16)
        finally:
            self._making_room = False

    def _end_largest(self, goal: int) -> None:
        holders: defaultdict[str, list[tuple[int, Holder]]] = defaultdict(list)
        for holder, (address, size) in self._held.items():
            holders[address].append((size, holder))
        for each in holders.values():
            each.sort(key=itemgetter(0))
        most = [(-size, address) for address, size in self._by_address.items()]
        heapify(most)
        while most and self.total > goal:
            address = most[0][1]
            holder = holders[address].pop()[1]
            if holder in self._held:
                self.release(holder)
                self.ended += 1
                holder.give_up()
            if holders[address]:
                heapreplace(most, (-self._by_address.get(address, 0), address))
            else:
                heappop(most)
