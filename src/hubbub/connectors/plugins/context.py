"""The context of a call, as seen by plugins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hubbub.connectors.plugins.execution import PendingResponse
from hubbub.ports.plugins import CallContext


class Context:
    """`hub`, `sender` and `session` identify the caller; `collection` is the collection of a
    validator's or saver's document. Every method calls the hub, and raises `CommandRefused` if it
    refuses."""

    __slots__ = ("collection", "hub", "sender", "session")

    def __init__(self, told: CallContext) -> None:
        self.hub = told.hub
        self.sender = told.sender
        self.session = told.session or None
        self.collection = told.collection or None

    async def filter_messages(self, messages: Sequence[dict[str, Any]]) -> Any:
        """The messages that pass all filters of the calling session."""
        return await PendingResponse("filter_messages", [messages])

    async def publish(self, message: dict[str, Any], as_user: str | None = None) -> Any:
        """The completed hMessage."""
        return await PendingResponse("publish", [message, as_user])

    async def command(self, cmd: str, params: Any = None, as_user: str | None = None) -> Any:
        """Returns the result of another command of the hub."""
        return await PendingResponse("command", [cmd, params, as_user])

    async def find(
        self,
        collection: str,
        criteria: dict[str, Any] | None = None,
        sort: Sequence[str] | str | None = None,
        limit: int = 100,
    ) -> Any:
        """Returns copies of stored documents that meet the criteria."""
        return await PendingResponse("find", [collection, criteria, sort, limit])

    async def channel(self, chid: str) -> Any:
        """The hChannel."""
        return await PendingResponse("channel", [chid])

    async def save(self, collection: str, document: dict[str, Any]) -> Any:
        """Returns the document as stored, after its validators."""
        return await PendingResponse("save", [collection, document])
