"""What the shipped limits add up to: the memory that others can make a hub hold, at most."""

from __future__ import annotations

from hubbub.domain.holdings import FREE_BYTES
from hubbub.server.settings import Settings, load

_GIBIBYTE = 1 << 30


def sum_of_limits() -> str:
    """One line for each limit of bytes, and their sum."""
    parts = _parts(load(None, {}, {}))
    lines = [f"- {what}: {size / _GIBIBYTE:.3f} GiB" for what, size in parts.items()]
    total = sum(parts.values()) / _GIBIBYTE
    return "\n".join(["Limits of bytes:", *lines, f"- together: {total:.3f} GiB"])


def _parts(settings: Settings) -> dict[str, int]:
    """What is bounded as a whole counts once, however many share it."""
    connections = settings.listener.max_connections
    answers = settings.webhooks.in_flight * settings.webhooks.answer_bytes
    return {
        "requests that have not ended and unread answers and deliveries, all connections": (
            settings.listener.max_buffered_bytes
        ),
        f"{connections:,} connections, each with {FREE_BYTES:,} bytes that are not counted": (
            connections * FREE_BYTES
        ),
        "ZeroMQ messages that have not ended": settings.zeromq.max_buffered_bytes,
        f"{settings.webhooks.in_flight:,} answers of receivers": answers,
    }
