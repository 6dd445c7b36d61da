"""The port to command plugins: code of others, which runs apart from the hub."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from hubbub.domain.plugins.shape import Shape


class CallContext(msgspec.Struct, frozen=True):
    """What a plugin is told about its call. `session` is empty where there is none; `collection`
    is that of a validator's or saver's document."""

    hub: str
    sender: str = ""
    session: str = ""
    collection: str = ""


class PluginReply(msgspec.Struct, frozen=True):
    """A status of 0 with a value in JSON, or another one with a text that says why."""

    status: int = 0
    value: bytes = b"null"
    text: str = ""


class PluginHost(Protocol):
    """What a plugin's context can ask of the hub, for one call and with its rights."""

    async def ask(self, operation: str, arguments: bytes) -> PluginReply:
        """`arguments` is JSON that the plugin made: unchecked. Raises nothing."""
        ...


class PluginCall(msgspec.Struct, frozen=True):
    """A function of a plugin with its document in JSON, which it gets a copy of."""

    name: str
    function: str
    document: bytes
    context: CallContext
    timeout_ms: int


class Plugins(Protocol):
    """Plugins of one process of the hub. A call can fail, and never harms the caller: whatever the
    plugin does, an outcome comes within the call's timeout."""

    def find(self, name: str) -> Shape | None:
        """By name in any case; None for a name that no loaded file has."""
        ...

    def names(self) -> Mapping[str, Shape]:
        """Of the loaded files, in lower case; another mapping when other files are loaded."""
        ...

    async def call(self, hub: str, call: PluginCall, host: PluginHost) -> PluginReply:
        """Status 1 for what the plugin raised, 10 when it took too long, 9 when no worker can be
        had or too many calls of the hub wait."""
        ...
