"""The delay before reconnecting: none at first, then growing."""

from __future__ import annotations

import random

import msgspec

from hubbub.domain.errors import HubbubError, Limited


class ReconnectBackoff(msgspec.Struct):
    """The first attempt is immediate, unless the hub is overloaded. Then the delay doubles up to
    `longest_seconds`; jitter spreads the attempts of many clients."""

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
        """Called after a stable connection: the next failure counts as the first."""
        self.attempts = 0
