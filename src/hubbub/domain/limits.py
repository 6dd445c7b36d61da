"""Limits on how fast: buckets that refill by the second, with the time given from outside."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address

_SHARES, _LEAST_SHARE = 4, 10


def share_of(quota: int) -> int:
    """What one client may use up of a quota of its hub: a quarter, or all of a small one."""
    return max(quota // _SHARES, min(quota, _LEAST_SHARE))


class TokenBucket:
    """Allows `rate` units a second on average and `burst` at once; a rate of 0 allows all."""

    __slots__ = ("_asked", "_burst", "_rate", "_stamp", "_tokens")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._asked = 0.0
        self._rate = rate
        self._burst = max(burst, rate, 1.0)
        self._tokens = self._burst
        self._stamp = now

    def take(self, amount: float, now: float) -> bool:
        """Whether `amount` may pass at this moment; if so, it is used up. More than a burst passes
        when the bucket is full, and is paid for afterwards: else it could never pass at all."""
        if not self._rate:
            return True
        self._asked += amount
        elapsed = now - self._stamp
        if elapsed > 0:
            self._tokens = min(self._burst, self._tokens + elapsed * self._rate)
            self._stamp = now
        if self._tokens < min(amount, self._burst):
            return False
        self._tokens -= amount
        return True

    def tune(self, rate: float, now: float) -> None:
        """Another rate from now on, with a burst of one second."""
        earned = max(0.0, now - self._stamp) * self._rate
        self._stamp = max(now, self._stamp)
        self._rate = rate
        self._burst = max(rate, 1.0)
        self._tokens = min(self._tokens + earned, self._burst)

    def take_asked(self) -> float:
        """How much `take` was asked for since the last call."""
        asked, self._asked = self._asked, 0.0
        return asked

    def give_back(self, amount: float) -> None:
        """Return an amount that was taken and not used."""
        self._tokens = min(self._burst, self._tokens + amount)

    def seconds_until(self, amount: float) -> float:
        """How long after the last refused `take` of `amount` the next one passes."""
        if not self._rate:
            return 0.0
        return max(0.0, (min(amount, self._burst) - self._tokens) / self._rate)


class KeyedBuckets:
    """A token bucket for each key, and memory for at most `size` keys.

    Keys are in two generations. One that is used belongs to the younger; when that holds half of
    `size`, it becomes the older, and what was the older is forgotten. A key that comes back after
    that has a full bucket again.
    """

    __slots__ = ("_burst", "_half", "_old", "_young", "rate")

    def __init__(self, rate: float, burst: float, size: int) -> None:
        """A `rate` of 0 allows all."""
        self.rate = rate
        self._burst = burst
        self._half = max(1, size // 2)
        self._young: dict[Hashable, TokenBucket] = {}
        self._old: dict[Hashable, TokenBucket] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def take(self, key: Hashable, amount: float, now: float) -> float:
        """0.0 if `amount` may pass now, and then it is used up; else the seconds to wait."""
        if not self.rate:
            return 0.0
        bucket = self._young.get(key)
        if bucket is None:
            bucket = self._bring(key, now)
        return 0.0 if bucket.take(amount, now) else bucket.seconds_until(amount)

    def give_back(self, key: Hashable, amount: float) -> None:
        bucket = self._young.get(key) or self._old.get(key)
        if bucket is not None:
            bucket.give_back(amount)

    def _bring(self, key: Hashable, now: float) -> TokenBucket:
        bucket = self._old.pop(key, None) or TokenBucket(self.rate, self._burst, now)
        if len(self._young) >= self._half:
            self._old, self._young = self._young, {}
        self._young[key] = bucket
        return bucket


@lru_cache(maxsize=4096)
def network_of(address: str) -> str:
    """What an address is counted as: itself, or for IPv6 its network of 64 bits, all of whose
    addresses one host can use. IPv4 addresses in IPv6 are IPv4 addresses."""
    try:
        found = ip_address(address.partition("%")[0].strip("[]"))
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(IPv6Network((int(found) >> 64 << 64, 64)))
    return str(found)
