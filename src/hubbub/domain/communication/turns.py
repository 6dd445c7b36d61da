"""Turns: which deliveries of a message to one receiver begin, where addresses of a peer or members
of a collective are tried one after the other (IN_ORDER).

The state of a turn is that of its rows, so turns go on after a restart where they stood.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from hubbub.domain.communication.steps import DUE, FAILED, WAITING, DeliveryRow


class _Delivery:
    __slots__ = ("at", "key", "state")

    def __init__(self, row: DeliveryRow) -> None:
        self.key = row.key
        self.state = row.state
        self.at = row.at

    def is_over(self, turn_ms: int, now: int) -> bool:
        """Whether the next delivery may begin."""
        return self.state == FAILED or (self.state != WAITING and now >= self.at + turn_ms)


class DeliveryTurns:
    """The turns of one receiver, at the owner of the log. Times are in milliseconds since 1970."""

    __slots__ = ("_deliveries", "address_turns", "member_turn", "next_at")

    def __init__(
        self, rows: Iterable[DeliveryRow], address_turns: Mapping[str, int], member_turn: int
    ) -> None:
        """`rows` in the order of their ordinals. `address_turns`: how long an address may take, for
        peers whose addresses take turns; `member_turn`: the same for members, 0: all begin at
        once."""
        self.address_turns = address_turns
        self.member_turn = member_turn
        self._deliveries: dict[str, list[_Delivery]] = {}
        for row in rows:
            self._deliveries.setdefault(row.peer, []).append(_Delivery(row))
        self.next_at = math.inf
        """When `begin` has to be called again, at the latest."""

    def ended(self, row: DeliveryRow, state: int, now: int) -> None:
        """The delivery arrived or failed."""
        for delivery in self._deliveries[row.peer]:
            if delivery.key == row.key:
                delivery.state, delivery.at = state, now

    def begin(self, now: int, needs: Callable[[str], bool]) -> list[str]:
        """Returns the keys of the deliveries whose turn has come, now due. `needs(peer)`: whether
        the peer still needs the message."""
        self.next_at = math.inf
        begun: list[str] = []
        for peer, deliveries in self._deliveries.items():
            needed = needs(peer)
            if needed:
                begun += self._begin_addresses(deliveries, self.address_turns.get(peer, 0), now)
            if self.member_turn and needed and not self._is_next(deliveries, now):
                break
        return begun

    def _begin_addresses(self, deliveries: list[_Delivery], turn_ms: int, now: int) -> list[str]:
        begun: list[str] = []
        for number, delivery in enumerate(deliveries):
            if delivery.state != WAITING:
                continue
            before = deliveries[number - 1] if turn_ms and number else None
            if before is not None and not before.is_over(turn_ms, now):
                self.next_at = min(self.next_at, before.at + turn_ms)
                break
            delivery.state, delivery.at = DUE, now
            begun.append(delivery.key)
        return begun

    def _is_next(self, deliveries: list[_Delivery], now: int) -> bool:
        """Whether the member's turn is over, although it may still get the message."""
        if all(each.state == FAILED for each in deliveries):
            return True
        since = max(each.at for each in deliveries if each.state != WAITING)
        if now >= since + self.member_turn:
            return True
        self.next_at = min(self.next_at, since + self.member_turn)
        return False

    def waiting(self) -> list[str]:
        """Keys of the deliveries whose turn has not come."""
        return self._of(self._deliveries, lambda state: state == WAITING)

    def unfinished(self, peers: Iterable[str]) -> list[str]:
        """Keys of these peers' deliveries that have no outcome."""
        return self._of(peers, lambda state: state in (DUE, WAITING))

    def _of(self, peers: Iterable[str], wanted: Callable[[int], bool]) -> list[str]:
        return [
            each.key
            for peer in peers
            for each in self._deliveries.get(peer, ())
            if wanted(each.state)
        ]

    def end(self, keys: Iterable[str]) -> None:
        """These deliveries are over without an outcome."""
        ended = set(keys)
        for deliveries in self._deliveries.values():
            deliveries[:] = [each for each in deliveries if each.key not in ended]
