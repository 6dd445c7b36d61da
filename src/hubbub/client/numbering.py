"""Sequence numbers of puts and document changes, so that repeats are stored once."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from hubbub.domain.errors import BadRequest, PatchFailed, VersionMismatch
from hubbub.domain.requests import Producer

_NEVER_STORED = (BadRequest, PatchFailed, VersionMismatch)
"""Errors about content: the repeat of a stored put is answered before they are raised."""


class NumberedPuts:
    """The producer of one client on one channel. Callers hold `turn` around `next`, so that one put
    is in flight at a time."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self._id, self._sequence = _new()

    @contextmanager
    def next(self) -> Iterator[Producer]:
        """The stamp of the next put. If the block raises or is cancelled, the put may or may not be
        stored, so its sequence number must not be reused: the next put is the first of a new
        producer."""
        stamp = Producer(self._id, self._sequence + 1)
        self._id, self._sequence = _new()
        try:
            yield stamp
        except _NEVER_STORED:
            self._id, self._sequence = stamp.id, stamp.sequence - 1
            raise
        self._id, self._sequence = stamp.id, stamp.sequence


def _new() -> tuple[str, int]:
    return secrets.token_hex(16), 0
