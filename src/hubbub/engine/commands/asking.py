"""Senders of commands, and executors outside of the hub: plugins and other clients."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec

from hubbub.domain.commands.jids import Jid
from hubbub.domain.commands.objects import HCommand, HMessage, HResult
from hubbub.domain.permissions import Identity
from hubbub.engine.hub import Hub, SessionState
from hubbub.ports.plugins import PluginHost


class Asker(msgspec.Struct, frozen=True, eq=False):
    """The sender of a command, with a verified `identity`. Over HTTP there is no session."""

    hub: Hub
    identity: Identity
    session: SessionState | None = None
    technology: str | None = None

    @property
    def user_id(self) -> str:
        """The user for whom the command acts; `Commands` admits only askers with one."""
        assert self.identity.user_id is not None
        return self.identity.user_id

    @property
    def jid(self) -> Jid:
        """The full JID if there is a session, otherwise the bare one."""
        resource = None if self.session is None else self.session.id
        return Jid(self.user_id, self.hub.name, resource)

    @property
    def speaks_for_others(self) -> bool:
        return self.identity.trusted


Handler = Callable[[Asker, Any], Awaitable[Any]]
"""Executes a command with these params and returns its result (`UNSET`: none). Raises
`CommandRefused` and `HubbubError`."""


class CommandPlugins(Protocol):
    def host(self, hub: Hub, sender: str, execute: Execute) -> PluginHost:
        """The hub's operations for a validator or saver of a document of this sender."""

    def find(self, hub: Hub, name: str) -> PluginCommand | None:
        """The plugin with this name in lower case."""


Execute = Callable[[Asker, HCommand], Awaitable[HResult]]
"""Executes a command of the hub or of a plugin."""


class PluginCommand(Protocol):
    async def run(self, asker: Asker, command: HCommand, execute: Execute) -> HResult:
        """Always returns an hResult, within the plugin's time limit. The plugin may run other
        commands through `execute`."""


class CommandRouter(Protocol):
    async def route(self, asker: Asker, command: HCommand, entity: Jid) -> HResult:
        """Sends the command to the sessions of another user and returns the first result. Always
        returns an hResult."""

    async def deliver(self, hub: Hub, receiver: Jid, message: HMessage) -> None:
        """Sends a message to all sessions of a user, or to one; there may be none."""

    def answered(self, session: SessionState, result: object) -> None:
        """Handles a client's hResult, as a JSON value. Results without a pending command are
        dropped."""
