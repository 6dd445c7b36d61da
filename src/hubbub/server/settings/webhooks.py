"""The keys of webhooks; `keys` says how to read them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

DAY = 86_400.0
MEBIBYTE = 1 << 20


class Webhooks(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that go out as HTTP requests, and the doors `/hub` and `/websub`."""

    hub: str | None = None
    """The hub that `/hub` and `/websub` mean; without it the only one that is declared, in
    developer mode `demo`."""
    public_url: str | None = None
    """How others reach this server, such as `https://hub.example.com`: for links, and to know own
    topics by their URL. Without it, links are relative."""
    timeout: Annotated[float, Meta(ge=0.1, le=120)] = 10.0
    """Time for one request to a receiver."""
    max_response_bytes: Annotated[int, Meta(ge=1024, le=16 * MEBIBYTE)] = 65_536
    """Size of a receiver's answer at most."""
    per_host: Annotated[int, Meta(ge=1, le=1000)] = 16
    """Requests under way to one host and port at most."""
    max_in_flight: Annotated[int, Meta(ge=1, le=100_000)] = 10_000
    """Requests under way in all at most."""
    retries: Annotated[int, Meta(ge=0, le=10_000)] = 100
    """How often a message is tried again before it goes to the dead letters; at most 7 times where
    the receiver answers that the request is wrong (3xx, 4xx)."""
    give_up_after: Annotated[float, Meta(ge=0.1, le=365 * DAY)] = DAY
    """Time after the first failure in which it is tried."""
    first_retry: Annotated[float, Meta(ge=0.01, le=3600)] = 1.0
    """Time before it is tried again; twice as long after each failure."""
    longest_retry: Annotated[float, Meta(ge=0.01, le=DAY)] = 600.0
    """The longest such time, also where `Retry-After` asks."""
    breaker_failures: Annotated[int, Meta(ge=1, le=1000)] = 5
    """Failures in a row after which a host is left alone for a while; then one request finds out
    whether it is back."""
    fetch_max_bytes: Annotated[int, Meta(ge=1024, le=64 * MEBIBYTE)] = MEBIBYTE
    """Size of a topic that is fetched after a ping."""
    default_lease: Annotated[float, Meta(ge=60, le=3650 * DAY)] = 10 * DAY
    """Time for which a WebSub subscription holds."""
    max_lease: Annotated[float, Meta(ge=60, le=3650 * DAY)] = 30 * DAY
    """The longest such time that a subscriber gets."""
