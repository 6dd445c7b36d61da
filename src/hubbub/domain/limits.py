"""Rate limits: token buckets, with the time given by the caller."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address

_SHARES, _LEAST_SHARE = 4, 10


def share_of(quota: int) -> int:
    """How much of a hub's quota one client may use: a quarter, or all of a small quota."""
    return max(quota // _SHARES, min(quota, _LEAST_SHARE))


class TokenBucket:
    """Allows `rate` units per second on average and a burst of `burst`; a rate of 0 allows
    everything."""

    __slots__ = ("_asked", "_burst", "_rate", "_stamp", "_tokens")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._asked = 0.0
        self._rate = rate
        self._burst = max(burst, rate, 1.0)
        self._tokens = self._burst
        self._stamp = now

    def take(self, amount: float, now: float) -> bool:
        """Whether `amount` may pass now; if so, it is deducted. An amount larger than the burst
        passes when the bucket is full and leaves the bucket negative; otherwise it could never
        pass."""
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
        """Sets the rate; the burst becomes one second's worth."""
        earned = max(0.0, now - self._stamp) * self._rate
        self._stamp = max(now, self._stamp)
        self._rate = rate
        self._burst = max(rate, 1.0)
        self._tokens = min(self._tokens + earned, self._burst)

    def take_asked(self) -> float:
        """The total amount requested by `take` since the last call."""
        asked, self._asked = self._asked, 0.0
        return asked

    def give_back(self, amount: float) -> None:
        """Returns an amount that was taken but not used."""
        self._tokens = min(self._burst, self._tokens + amount)

    def seconds_until(self, amount: float) -> float:
        """Seconds after the last refused `take` of `amount` until it would pass."""
        if not self._rate:
            return 0.0
        return max(0.0, (min(amount, self._burst) - self._tokens) / self._rate)


class KeyedBuckets:
    """A token bucket per key, for at most `size` keys.

    Keys live in two generations. A used key moves to the younger one; when that holds half of
    `size`, it becomes the older one, and the previous older one is discarded. A discarded key
    starts again with a full bucket.
    """

    __slots__ = ("_burst", "_half", "_old", "_young", "rate")

    def __init__(self, rate: float, burst: float, size: int) -> None:
        """A `rate` of 0 allows everything."""
        self.rate = rate
        self._burst = burst
        self._half = max(1, size // 2)
        self._young: dict[Hashable, TokenBucket] = {}
        self._old: dict[Hashable, TokenBucket] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def take(self, key: Hashable, amount: float, now: float) -> float:
        """Returns 0.0 if `amount` passes now, and deducts it; else the seconds to wait."""
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
    """The unit in which an address is counted: the address itself, or the /64 network for IPv6, all
    of which one host can use. IPv4-mapped addresses count as IPv4."""
    try:
        found = ip_address(address.partition("%")[0].strip("[]"))
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(IPv6Network((int(found) >> 64 << 64, 64)))
    return str(found)
