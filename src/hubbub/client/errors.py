"""Errors that only a client can meet; all others come from the hub (`hubbub.domain.errors`).

HubbubError
├── Unavailable
│   ├── Unreachable       nobody answers at the address
│   └── ConnectionLost    the connection broke while something was under way: it may have happened
├── Limited
│   └── QueueFull         too much waits to be sent; try again when the hub is back
├── Conflict
│   └── ClientClosed      the client was closed, by the application or for good by the hub
└── NotFound
    └── MessagesLost      messages are missing from a stream and cannot be fetched any more
"""

from __future__ import annotations

from hubbub.client.events import Gap
from hubbub.domain.errors import Conflict, Limited, NotFound, Unavailable


class Unreachable(Unavailable):
    code = "unreachable"


class ConnectionLost(Unavailable):
    code = "connection_lost"


class QueueFull(Limited):
    code = "queue_full"


class ClientClosed(Conflict):
    code = "client_closed"


class MessagesLost(NotFound):
    """Raised by streams that were asked to. The stream can be read on: what follows is the first
    message after the gap."""

    code = "messages_lost"

    def __init__(self, gap: Gap) -> None:
        super().__init__(f"messages of {gap.channel!r} were lost: {gap.reason}")
        self.gap = gap
