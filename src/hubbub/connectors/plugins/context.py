"""The context of a call, as plugins use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hubbub.connectors.plugins.execution import Asked
from hubbub.ports.plugins import CallContext


class Context:
    """`hub`, `sender` and `session` say for whom the call is; `collection` is that of a validator's
    or saver's document. Every method asks the hub, and raises `CommandRefused` where it refuses."""

    __slots__ = ("collection", "hub", "sender", "session")

    def __init__(self, told: CallContext) -> None:
        self.hub = told.hub
        self.sender = told.sender
        self.session = told.session or None
        self.collection = told.collection or None

    async def filter_messages(self, messages: Sequence[dict[str, Any]]) -> Any:
        """Those messages that pass all filters of the asking session."""
        return await Asked("filter_messages", [messages])

    async def publish(self, message: dict[str, Any], as_user: str | None = None) -> Any:
        """The completed hMessage."""
        return await Asked("publish", [message, as_user])

    async def command(self, cmd: str, params: Any = None, as_user: str | None = None) -> Any:
        """The result of another command of the hub."""
        return await Asked("command", [cmd, params, as_user])

    async def find(
        self,
        collection: str,
        criteria: dict[str, Any] | None = None,
        sort: Sequence[str] | str | None = None,
        limit: int = 100,
    ) -> Any:
        """Copies of stored documents that meet the criteria."""
        return await Asked("find", [collection, criteria, sort, limit])

    async def channel(self, chid: str) -> Any:
        """The hChannel."""
        return await Asked("channel", [chid])

    async def save(self, collection: str, document: dict[str, Any]) -> Any:
        """The document as stored, after its validators."""
        return await Asked("save", [collection, document])
