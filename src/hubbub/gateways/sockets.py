"""Limits the kernel's buffers for clients of a listening socket."""

from __future__ import annotations

import asyncio
import socket

UNSENT_BYTES = 128 * 1024
"""Maximum number of bytes that the kernel accepts for a connection before they can be sent. Bytes
in flight do not count, so a fast client is not slowed down."""


def bound_unsent(server: asyncio.Server) -> None:
    """Limits the kernel's unsent bytes for every connection that `server` accepts, so that a client
    that does not read is noticed early. Without it the kernel accepts up to 4 MiB per such client
    (`tcp_wmem`): memory that no limit of the hub counts, and that takes longer to fill than all
    other work on a message. Systems without the option keep their own limit."""
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if option is not None:
        for listening in server.sockets:
            listening.setsockopt(socket.IPPROTO_TCP, option, UNSENT_BYTES)
