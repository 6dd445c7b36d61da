"""Limits on how fast: a bucket that refills by the second, with the time given from outside."""

from __future__ import annotations


class TokenBucket:
    """Allows `rate` units a second on average and `burst` at once; a rate of 0 allows all."""

    __slots__ = ("_burst", "_rate", "_stamp", "_tokens")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate = rate
        self._burst = max(burst, rate, 1.0)
        self._tokens = self._burst
        self._stamp = now

    def take(self, amount: float, now: float) -> bool:
        """Whether `amount` may pass at this moment; if so, it is used up. More than a burst passes
        when the bucket is full, and is paid for afterwards: else it could never pass at all."""
        if not self._rate:
            return True
        elapsed = now - self._stamp
        if elapsed > 0:
            self._tokens = min(self._burst, self._tokens + elapsed * self._rate)
            self._stamp = now
        if self._tokens < min(amount, self._burst):
            return False
        self._tokens -= amount
        return True
