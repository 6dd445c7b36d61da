"""Tickets: one-time secrets with which the starter of a hub in developer mode logs a browser in."""

from __future__ import annotations

import hashlib

from hubbub.domain.errors import InvalidToken
from hubbub.ports import randomness
from hubbub.ports.clock import Clock

_MOST = 10
TICKET_SECONDS = 10 * 60.0


class Tickets:
    """A ticket is valid once, within ten minutes. Only hashes of tickets are kept."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends: dict[bytes, float] = {}

    def issue(self) -> str:
        ticket = randomness.token_urlsafe(24)
        while len(self._ends) >= _MOST:
            del self._ends[next(iter(self._ends))]
        self._ends[_hash(ticket)] = self._clock.monotonic() + TICKET_SECONDS
        return ticket

    def spend(self, ticket: str) -> None:
        """Raises `InvalidToken` if the ticket is unknown, used or expired."""
        end = self._ends.pop(_hash(ticket), None)
        if end is None or end < self._clock.monotonic():
            raise InvalidToken(
                "the ticket is unknown, was used already or is older than ten minutes; start the "
                "hub again for a new one, or log in with a token"
            )


def _hash(ticket: str) -> bytes:
    return hashlib.blake2b(ticket.encode("utf-8", "replace"), digest_size=16).digest()
