"""The port to command plugins: third-party code that runs in a separate process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from hubbub.domain.plugins.shape import PluginShape


class CallContext(msgspec.Struct, frozen=True):
    """What a plugin knows about its call. `session` is empty if there is none; `collection` is the
    collection of a validator's or saver's document."""

    hub: str
    sender: str = ""
    session: str = ""
    collection: str = ""


class PluginReply(msgspec.Struct, frozen=True):
    """A status of 0 with a JSON value, or another status with a text that explains it."""

    status: int = 0
    value: bytes = b"null"
    text: str = ""


class PluginHost(Protocol):
    """The hub's operations for a plugin, for one call and with the caller's rights."""

    async def ask(self, operation: str, arguments: bytes) -> PluginReply:
        """`arguments` is unchecked JSON from the plugin. Never raises."""
        ...


class PluginCall(msgspec.Struct, frozen=True):
    """A call of a plugin's function; the plugin gets a copy of the JSON document."""

    name: str
    function: str
    document: bytes
    context: CallContext
    timeout_ms: int


class Plugins(Protocol):
    """The plugins of one hub process. A call may fail but never harms the caller: it ends within
    its timeout whatever the plugin does."""

    def find(self, name: str) -> PluginShape | None:
        """Looks up a name, ignoring case; None if no loaded file has it."""
        ...

    def names(self) -> Mapping[str, PluginShape]:
        """The loaded files by name in lower case; loading files creates a new mapping."""
        ...

    async def call(self, hub: str, call: PluginCall, host: PluginHost) -> PluginReply:
        """Status 1: the plugin raised; 10: timeout; 9: no worker is available or too many calls of
        the hub are queued."""
        ...
