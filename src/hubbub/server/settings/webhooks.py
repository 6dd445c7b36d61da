"""The keys of webhooks; `settings_keys` says how to read them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

DAY = 86_400.0
MEBIBYTE = 1 << 20


class Webhooks(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that go out as HTTP requests, and the doors `/hub` and `/websub`."""

    hub: Annotated[
        str | None,
        Meta(
            description="The hub that `/hub` and `/websub` mean; without it the only one that is "
            "declared, in developer mode `demo`."
        ),
    ] = None
    public_url: Annotated[
        str | None,
        Meta(
            description="How others reach this server, such as `https://hub.example.com`: for "
            "links, and to know own topics by their URL. Without it, as the request says."
        ),
    ] = None
    timeout: Annotated[
        float, Meta(ge=0.1, le=120, description="Time for one request to a receiver.")
    ] = 10.0
    max_response_bytes: Annotated[
        int, Meta(ge=1024, le=16 * MEBIBYTE, description="Size of a receiver's answer at most.")
    ] = 65_536
    per_host: Annotated[
        int, Meta(ge=1, le=1000, description="Requests under way to one host and port at most.")
    ] = 16
    max_in_flight: Annotated[
        int, Meta(ge=1, le=100_000, description="Requests under way in all at most.")
    ] = 10_000
    retries: Annotated[
        int,
        Meta(
            ge=0,
            le=10_000,
            description="How often a message is tried again before it goes to the dead letters; "
            "at most 7 times where the receiver answers that the request is wrong (3xx, 4xx).",
        ),
    ] = 100
    give_up_after: Annotated[
        float,
        Meta(
            ge=0.1, le=365 * DAY, description="Time after the first failure in which it is tried."
        ),
    ] = DAY
    first_retry: Annotated[
        float,
        Meta(
            ge=0.01,
            le=3600,
            description="Time before it is tried again; twice as long after each failure.",
        ),
    ] = 1.0
    longest_retry: Annotated[
        float,
        Meta(ge=0.01, le=DAY, description="The longest such time, also where `Retry-After` asks."),
    ] = 600.0
    breaker_failures: Annotated[
        int,
        Meta(
            ge=1,
            le=1000,
            description="Failures in a row after which a host is left alone for a while; then one "
            "request finds out whether it is back.",
        ),
    ] = 5
    fetch_max_bytes: Annotated[
        int,
        Meta(
            ge=1024, le=64 * MEBIBYTE, description="Size of a topic that is fetched after a ping."
        ),
    ] = MEBIBYTE
    default_lease: Annotated[
        float,
        Meta(ge=60, le=3650 * DAY, description="Time for which a WebSub subscription holds."),
    ] = 10 * DAY
    max_lease: Annotated[
        float,
        Meta(ge=60, le=3650 * DAY, description="The longest such time that a subscriber gets."),
    ] = 30 * DAY
