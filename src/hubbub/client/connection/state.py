"""The state of a client that outlives its connections."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from hubbub.client.connection.registry import Registry
from hubbub.client.connection.send_queue import SendQueue
from hubbub.client.events import Event
from hubbub.client.options import Options
from hubbub.client.proof import Proof
from hubbub.domain.filters.definition import FilterDefinition
from hubbub.domain.notices import CommandReceived, SessionInfo


class ClientState:
    def __init__(self, proof: Proof, options: Options, emit: Callable[[Event], None]) -> None:
        self.options = options
        self.emit = emit
        self.proof = proof
        self.send_queue = SendQueue(options.max_queued)
        self.registry = Registry(emit)
        self.filters: dict[tuple[str, str | None], FilterDefinition] = {}
        """The filters set by the application, by name and channel."""
        self.filtered = False
        """Whether a filter was ever set: a restored session may still have it."""
        self.info: SessionInfo | None = None
        self.restore_key: str | None = None
        self.command_received: Callable[[CommandReceived], None] = lambda notice: None
        """Called with each command sent to the client."""
        self._ids = count(1)

    def next_id(self) -> int:
        return next(self._ids)
