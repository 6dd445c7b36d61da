"""A bound on the bytes that all clients together make a process buffer."""

from __future__ import annotations

from collections import defaultdict
from heapq import heapify, heappop, heapreplace
from operator import itemgetter
from typing import Protocol

FREE_BYTES = 4096
"""A holder of no more than this counts as empty: about the cost of a connection."""


class Holder(Protocol):
    """A connection with buffered bytes: an incomplete request, or unread output."""

    def give_up(self) -> None:
        """Ends the connection and releases its buffers."""


class Holdings:
    """Buffered bytes per holder and client address. Above `limit`, the address with the most bytes
    loses its largest holder, repeatedly, until a sixteenth of the limit is free, so that one scan
    of all holders pays for many calls. An address with fewer bytes than another loses nothing."""

    __slots__ = ("_by_address", "_held", "_making_room", "ended", "limit", "total")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self.ended = 0
        """How many holders were ended."""
        self._held: dict[Holder, tuple[str, int]] = {}
        self._by_address: dict[str, int] = {}
        self._making_room = False

    def hold(self, holder: Holder, address: str, size: int) -> None:
        """Sets the bytes that `holder` holds for `address` (see `limits.network_of`). May call
        `give_up` of any holder, including this one."""
        self.release(holder)
        if size <= FREE_BYTES:
            return
        self._held[holder] = (address, size)
        self._by_address[address] = self._by_address.get(address, 0) + size
        self.total += size
        if self.total > self.limit and not self._making_room:
            self._make_room()

    def release(self, holder: Holder) -> None:
        """Removes the holder; one that is unknown is ignored."""
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
        """Ending a holder can grow others, since leaving is announced to them: the total is checked
        again at the end."""
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
