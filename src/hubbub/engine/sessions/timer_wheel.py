"""A wheel of sessions: everyone is looked at once per interval, a share of them every second."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hubbub.engine.sessions.session import Session


class Wheel:
    """Costs no timer per session."""

    def __init__(self, interval_seconds: float) -> None:
        self.interval_seconds = interval_seconds
        self._slots: list[dict[Session, None]] = [
            {} for _ in range(max(1, round(interval_seconds)))
        ]
        self._hand = 0

    def add(self, session: Session) -> None:
        """Its turn comes after one interval."""
        self._slots[self._hand - 1][session] = None

    def remove(self, session: Session) -> None:
        for slot in self._slots:
            slot.pop(session, None)

    def turn(self) -> list[Session]:
        """Called every second: those whose turn it is."""
        self._hand = (self._hand + 1) % len(self._slots)
        return list(self._slots[self._hand])
