"""What the kernel may keep for the clients of a listening socket."""

from __future__ import annotations

import asyncio
import socket

UNSENT_BYTES = 128 * 1024
"""Bytes of one connection that the kernel takes before they can go on the wire. What is on its way
does not count, so a fast client is not slowed down."""


def bound_unsent(server: asyncio.Server) -> None:
    """Let a client that does not read be noticed early, at every connection that `server` accepts
    from now on. Without a bound the kernel takes up to 4 MiB for each such client (`tcp_wmem`):
    memory that no limit of the hub counts, and whose filling takes longer than everything else
    that the hub does for a message. Systems that do not know the option keep their own bound."""
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if option is not None:
        for listening in server.sockets:
            listening.setsockopt(socket.IPPROTO_TCP, option, UNSENT_BYTES)
