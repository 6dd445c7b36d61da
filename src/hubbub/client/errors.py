"""Errors that only a client can meet; all others come from the hub (`hubbub.domain.errors`).

HubbubError
├── Unavailable
│   ├── Unreachable       nobody answers at the address
│   ├── UntrustedServer   the server's certificate is not one that the client trusts
│   ├── ConnectionLost    the connection broke while something was under way: it may have happened
│   └── FileUnusable      the file of an outbox or inbox takes nothing: full, locked, damaged
├── Limited
│   ├── QueueFull         too much waits to be sent; try again when the hub is back
│   └── OutboxFull        the outbox holds as much as it may; try again when the hub took some
├── Conflict
│   ├── ClientClosed      the client was closed, by the application or for good by the hub
│   ├── FileInUse         another process, or another part of this one, has the outbox open
│   ├── OutboxMismatch    the outbox belongs to another hub or user, or is an old copy of itself
│   ├── CopyMismatch      the file holds the local copy of another document or user
│   ├── EditRejected      an edit of a local copy had no effect; `ops` are its operations
│   ├── TopicReplaced     the topic was deleted and made anew: the inbox's position means nothing
│   └── AlreadyProcessed  another process with the same inbox has done this message
├── NotFound
│   └── MessagesLost      messages are missing from a stream and cannot be fetched any more
└── Internal
    └── ClientFailed      a fault of the client itself; its cause says which
"""

from __future__ import annotations

from hubbub.client.events import Gap
from hubbub.domain.errors import Conflict, HubbubError, Internal, Limited, NotFound, Unavailable


class Unreachable(Unavailable):
    code = "unreachable"


class UntrustedServer(Unavailable):
    code = "untrusted_server"


class ConnectionLost(Unavailable):
    code = "connection_lost"


class FileUnusable(Unavailable):
    code = "file_unusable"


class QueueFull(Limited):
    code = "queue_full"


class OutboxFull(Limited):
    code = "outbox_full"


class ClientClosed(Conflict):
    code = "client_closed"


class FileInUse(Conflict):
    code = "file_in_use"


class OutboxMismatch(Conflict):
    code = "outbox_mismatch"


class CopyMismatch(Conflict):
    code = "copy_mismatch"


class EditRejected(Conflict):
    """`ops` is the JSON Patch as JSON, `reason` the hub's or the client's error; an exception of
    the edit function is the `__cause__`."""

    code = "edit_rejected"

    def __init__(self, channel: str, ops: bytes, cause: Exception, reason: HubbubError) -> None:
        super().__init__(f"an edit of {channel!r} was rejected: {reason.message}")
        self.ops = ops
        self.reason = reason
        self.__cause__ = cause


class TopicReplaced(Conflict):
    code = "topic_replaced"


class AlreadyProcessed(Conflict):
    code = "already_processed"


class ClientFailed(Internal):
    code = "client_failed"
    reconnect = False


def client_failed(cause: BaseException) -> ClientFailed:
    error = ClientFailed(f"the client failed: {type(cause).__name__}: {cause}")
    error.__cause__ = cause
    return error


class MessagesLost(NotFound):
    """Raised by iterators with `on_gap="raise"`. Iteration can continue with the first message
    after the gap."""

    code = "messages_lost"

    def __init__(self, gap: Gap) -> None:
        super().__init__(f"messages of {gap.channel!r} were lost: {gap.reason}")
        self.gap = gap
