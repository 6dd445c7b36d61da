"""How long to wait before connecting again: not at all, then longer and longer."""

from __future__ import annotations

import random

import msgspec

from hubbub.domain.errors import HubbubError, Limited


class Backoff(msgspec.Struct):
    """The first attempt comes at once, unless the hub said that it is too much for it. Then the
    wait doubles up to `longest_seconds`; a random part keeps many clients from coming together."""

    first_seconds: float = 0.25
    longest_seconds: float = 20.0
    attempts: int = 0

    def next(self, error: HubbubError) -> float:
        """Seconds until the next attempt, after a connection ended with `error`."""
        if self.attempts == 0 and isinstance(error, Limited):
            self.attempts = 1
        attempt, self.attempts = self.attempts, self.attempts + 1
        if attempt == 0:
            return 0.0
        longest = min(self.longest_seconds, self.first_seconds * 2.0 ** min(attempt - 1, 30))
        return random.uniform(longest / 2, longest)

    def reset(self) -> None:
        """All is well: the next loss is a new one."""
        self.attempts = 0
