"""Random values for what runs in a hub: unpredictable ones for ids and secrets, cheap ones for
pauses and samples. `seeded` makes both repeatable, so that a simulation can run the same code twice
with the same result."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random, SystemRandom
from typing import TypeVar

T = TypeVar("T")

_unpredictable: Random = SystemRandom()
_cheap = Random()


def token_bytes(count: int) -> bytes:
    return _unpredictable.randbytes(count)


def token_hex(count: int) -> str:
    """`count` unpredictable bytes, in hexadecimal digits."""
    return token_bytes(count).hex()


def token_urlsafe(count: int) -> str:
    """`count` unpredictable bytes, in Base64 for URLs without padding."""
    return urlsafe_b64encode(token_bytes(count)).rstrip(b"=").decode("ascii")


def token_bits(count: int) -> int:
    return _unpredictable.getrandbits(count)


def token_below(limit: int) -> int:
    """An unpredictable number from 0 to `limit` - 1."""
    return _unpredictable.randrange(limit)


def fraction() -> float:
    """A random number from 0 to 1, predictable for others."""
    return _cheap.random()


def sample(population: Sequence[T], count: int) -> list[T]:
    """Different elements; predictable."""
    return _cheap.sample(population, count)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Within, the values follow from the seed, in the order in which they are asked for. Nothing is
    secret then: only for simulations, in a process of their own."""
    global _unpredictable, _cheap
    before = _unpredictable, _cheap
    _unpredictable = _cheap = Random(seed)
    try:
        yield
    finally:
        _unpredictable, _cheap = before
