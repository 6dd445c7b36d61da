"""Who asks, and who answers what the hub itself does not: plugins and other clients.

Their implementations are elsewhere; a hub without them answers that they are not available.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from hubbub.domain.commands.jids import Jid
from hubbub.domain.commands.objects import HCommand, HMessage, HResult
from hubbub.domain.commands.status import not_available
from hubbub.domain.permissions import Identity
from hubbub.engine.hub import Hub, SessionState
from hubbub.engine.storing.hooks import StoringHooks


class Asker(msgspec.Struct, frozen=True, eq=False):
    """Who sends a command: `identity` was proven at the door. Over HTTP there is no session."""

    hub: Hub
    identity: Identity
    session: SessionState | None = None
    technology: str | None = None

    @property
    def user_id(self) -> str:
        """Of whom the command acts for; `Commands` lets in nobody without."""
        assert self.identity.user_id is not None
        return self.identity.user_id

    @property
    def jid(self) -> Jid:
        """Full where there is a session."""
        resource = None if self.session is None else self.session.id
        return Jid(self.user_id, self.hub.name, resource)

    @property
    def speaks_for_others(self) -> bool:
        return self.identity.trusted


Handler = Callable[[Asker, Any], Awaitable[Any]]
"""Answers the result (`UNSET`: there is nothing to say) of a command with these params. Raises
`CommandRefused` and `HubbubError`."""


class CommandPlugins(Protocol):
    def find(self, hub: Hub, name: str) -> PluginCommand | None:
        """The plugin of this name, in lower case."""


class PluginCommand(Protocol):
    async def run(self, asker: Asker, command: HCommand) -> HResult:
        """An hResult always comes, within the plugin's own time limit."""


class Router(Protocol):
    async def route(self, asker: Asker, command: HCommand, entity: Jid) -> HResult:
        """Hand the command to the sessions of another user, and answer the first result. An hResult
        always comes."""

    async def deliver(self, hub: Hub, receiver: Jid, message: HMessage) -> None:
        """Hand a message to all sessions of a user, or to one; nobody may be there."""

    def answered(self, session: SessionState, result: object) -> None:
        """A client answers a command that it was handed, with an hResult as a JSON value. One that
        nobody asked for is dropped."""


class NoPlugins:
    def find(self, hub: Hub, name: str) -> PluginCommand | None:
        return None


class NoRouter:
    async def route(self, asker: Asker, command: HCommand, entity: Jid) -> HResult:
        raise not_available(f"entity {command.entity!r} cannot be reached: only the hub answers")

    async def deliver(self, hub: Hub, receiver: Jid, message: HMessage) -> None:
        raise not_available(f"chid {message.chid!r} cannot be reached: give a channel")

    def answered(self, session: SessionState, result: object) -> None:
        """Nobody was asked."""


@dataclass(slots=True)
class Extensions:
    """What a node adds to the built-in commands."""

    plugins: CommandPlugins = field(default_factory=NoPlugins)
    router: Router = field(default_factory=NoRouter)
    hooks: StoringHooks = field(default_factory=StoringHooks)
    """Of channels and subscriptions; those of messages stand where messages are published."""
