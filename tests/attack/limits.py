"""What the shipped limits add up to: the memory that others can make a hub hold, at most."""

from __future__ import annotations

from hubbub.server.settings import Settings, load

_GIBIBYTE = 1 << 30


def sum_of_limits() -> str:
    """One line for each limit of bytes, and their sum."""
    parts = _parts(load(None, {}, {}))
    lines = [f"- {what}: {size / _GIBIBYTE:.3f} GiB" for what, size in parts.items()]
    total = sum(parts.values()) / _GIBIBYTE
    return "\n".join(["Limits of bytes:", *lines, f"- together: {total:.3f} GiB"])


def _parts(settings: Settings) -> dict[str, int]:
    connection, connections = settings.connection, settings.listener.max_connections
    coming = max(connection.http.max_body_bytes, connection.ws.max_message_bytes)
    going = max(connection.ws.send_buffer_bytes, connection.sse.send_buffer_bytes)
    answers = settings.webhooks.max_in_flight * settings.webhooks.max_response_bytes
    return {
        f"{connections:,} connections, each with a request that has not ended": connections
        * (coming + settings.listener.max_header_bytes),
        f"{connections:,} connections, each with unread deliveries": connections * going,
        "ZeroMQ messages that have not ended": settings.zeromq.max_buffered_bytes,
        f"{settings.webhooks.max_in_flight:,} answers of receivers": answers,
    }
