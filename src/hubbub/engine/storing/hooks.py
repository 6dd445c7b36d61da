"""Validators and savers of collections: functions of an embedding application, and of plugins."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

import msgspec

from hubbub.domain.commands.jids import channel_id
from hubbub.domain.commands.status import CommandRefused, Status
from hubbub.domain.errors import ValidationFailed
from hubbub.domain.plugins.shape import DEFAULT_TIMEOUT_MS, SAVED, VALIDATE, PluginShape
from hubbub.domain.rules import PLUGIN_COLLECTION
from hubbub.ports.plugins import CallContext, PluginCall, PluginHost, PluginReply, Plugins

logger = logging.getLogger(__name__)

ALL_MESSAGES = "hMessages"
"""The virtual collection of all messages to any channel or user."""
DIRECT_MESSAGES = "hDirectMessages"
_OF_COMMANDS = frozenset({"hChannels", "hCommands", "hResults", "hSubscriptions"})
"""Collections of objects other than messages."""

Document = dict[str, Any]
Hook = Callable[[Document, CallContext], Awaitable[object]]
"""Receives its own copy of a document. A validator accepts with None or True, and refuses with a
text, with a status and a text, with False, or by raising `CommandRefused`."""


MAX_DEPTH = 3
"""Validators and savers store documents, whose validators and savers may do so, and so on: at most
so many of them in a row."""
_depth: ContextVar[int] = ContextVar("_depth", default=0)
_validating: ContextVar[frozenset[tuple[str, str]]] = ContextVar("_validating", default=frozenset())
"""Hub and channel of the messages whose validators run: further messages of the channel wait for
them."""

HostOf = Callable[[CallContext], PluginHost]
"""The hub's operations for a validator or saver, in the name of the context's sender."""


class Origin(msgspec.Struct, frozen=True):
    """The causes of a stored document: how many validators and savers led to it one after another,
    and the messages that wait for these validators."""

    depth: int
    validating: frozenset[tuple[str, str]]

    def enter(self, validating: frozenset[tuple[str, str]] = frozenset()) -> None:
        """Makes this the origin of everything that the running task stores from now on."""
        _depth.set(self.depth)
        _validating.set(self.validating | validating)


def current_origin() -> Origin:
    return Origin(_depth.get(), _validating.get())


class _HookHost(PluginHost):
    """The host of a hook. Documents that the hook stores have an origin that is one step deeper."""

    def __init__(self, host: PluginHost, origin: Origin) -> None:
        self._host = host
        self._origin = Origin(origin.depth + 1, origin.validating)

    async def ask(self, operation: str, arguments: bytes) -> PluginReply:
        self._origin.enter()
        return await self._host.ask(operation, arguments)


class NoHost(PluginHost):
    """The host where the hub offers no commands."""

    async def ask(self, operation: str, arguments: bytes) -> PluginReply:
        text = f"{operation} is not available to a validator or saver"
        return PluginReply(int(Status.NOT_AVAILABLE), text=text)


def collections_of(hub: str, channel: str) -> tuple[str, ...]:
    """The collections to which messages of the channel belong."""
    if channel in _OF_COMMANDS:
        return (channel,)
    if channel.startswith(PLUGIN_COLLECTION):
        return (channel.removeprefix(PLUGIN_COLLECTION),)
    if channel == DIRECT_MESSAGES:
        return (channel, ALL_MESSAGES)
    return (channel_id(channel, hub), f"#{channel}", ALL_MESSAGES)


class StoringHooks:
    """The hooks of all hubs: `validate` before a document is stored, `saved` after it."""

    def __init__(self, plugins: Plugins | None = None) -> None:
        self._plugins = plugins
        self.in_use = plugins is not None
        """Whether any validator or saver may exist."""
        self._host_of: HostOf = lambda context: NoHost()
        self._validators: dict[str, list[Hook]] = {}
        self._savers: dict[str, list[Hook]] = {}
        self._indexed: Mapping[str, PluginShape] | None = None
        self._of_plugins: dict[str, dict[str, list[Hook]]] = {VALIDATE: {}, SAVED: {}}

    def serve(self, host_of: HostOf) -> None:
        """Lets validators and savers of plugins use the hub."""
        self._host_of = host_of

    def host(self, context: CallContext) -> PluginHost:
        return _HookHost(self._host_of(context), current_origin())

    def add_validator(self, collection: str, validator: Hook) -> None:
        """`collection` is `#channel@hub`, `#channel` for that channel of every hub, `hMessages`,
        `hDirectMessages`, `hChannels`, `hCommands`, `hResults` or `hSubscriptions`."""
        self._validators.setdefault(collection, []).append(validator)
        self.in_use = True

    def add_saver(self, collection: str, saver: Hook) -> None:
        self._savers.setdefault(collection, []).append(saver)
        self.in_use = True

    def concern(self, collections: tuple[str, ...]) -> bool:
        return any(self._of(collections, VALIDATE)) or any(self._of(collections, SAVED))

    async def validate(
        self, hub: str, collections: tuple[str, ...], encoded: bytes, sender: str = ""
    ) -> None:
        """Runs all validators of the document's collections concurrently; of several refusals, the
        one of the validator added first is raised. Raises `ValidationFailed`."""
        context = CallContext(hub, sender, collection=collections[0])
        hooks = list(self._of(collections, VALIDATE))
        if hooks and _depth.get() >= MAX_DEPTH:
            text = f"validators and savers store for each other {MAX_DEPTH} deep"
            raise ValidationFailed(text, int(Status.NOT_AVAILABLE))
        for refusal in await asyncio.gather(*(_judge(hook, encoded, context) for hook in hooks)):
            if refusal is not None:
                raise ValidationFailed(refusal.text, int(refusal.status))

    async def saved(
        self, hub: str, collections: tuple[str, ...], encoded: bytes, sender: str = ""
    ) -> None:
        """Runs all savers concurrently. Their exceptions are logged and undo nothing."""
        context = CallContext(hub, sender, collection=collections[0])
        hooks = list(self._of(collections, SAVED))
        if hooks and _depth.get() >= MAX_DEPTH:
            name = collections[0]
            logger.error(
                "hub %s: savers store for each other %d deep; that of %s is left out",
                hub,
                MAX_DEPTH,
                name,
            )
            return
        for refusal in await asyncio.gather(*(_judge(hook, encoded, context) for hook in hooks)):
            if refusal is not None:
                name = collections[0]
                logger.error("hub %s: a saver of %s failed: %s", hub, name, refusal.text)

    def _of(self, collections: tuple[str, ...], function: str) -> Iterator[Hook]:
        plugins = self._plugins
        if plugins is not None and plugins.names() is not self._indexed:
            self._index(plugins, plugins.names())
        added = self._validators if function == VALIDATE else self._savers
        for hooks in (added, self._of_plugins[function]):
            for collection in collections:
                yield from hooks.get(collection, ())

    def _index(self, plugins: Plugins, shapes: Mapping[str, PluginShape]) -> None:
        """Sorts the hooks of plugins by collection."""
        self._indexed = shapes
        self._of_plugins = {VALIDATE: {}, SAVED: {}}
        for name, shape in shapes.items():
            for function, named in ((VALIDATE, shape.validates), (SAVED, shape.saves)):
                hook = _PluginHook(plugins, name, function, shape.timeout_ms, self.host)
                for collection in named:
                    self._of_plugins[function].setdefault(collection, []).append(hook)


class _PluginHook:
    """A plugin's validator or saver, called like a function of this process."""

    def __init__(
        self, plugins: Plugins, name: str, function: str, timeout_ms: int, host_of: HostOf
    ) -> None:
        self._plugins = plugins
        self._name = name
        self._function = function
        self._timeout_ms = timeout_ms
        self._host_of = host_of

    async def __call__(self, document: Document, context: CallContext) -> object:
        encoded = msgspec.json.encode(document)
        call = PluginCall(self._name, self._function, encoded, context, self._timeout_ms)
        reply = await self._plugins.call(context.hub, call, self._host_of(context))
        value = msgspec.json.decode(reply.value)
        if not reply.status:
            return value
        text = reply.text or value
        if self._function == SAVED:  # only the log says it
            text = f"{self._name}.py: {text}"
        return reply.status, text


async def _judge(hook: Hook, encoded: bytes, context: CallContext) -> CommandRefused | None:
    """Applies the default time limit of plugins; a plugin enforces its own."""
    seconds = None if isinstance(hook, _PluginHook) else DEFAULT_TIMEOUT_MS / 1000
    try:
        async with asyncio.timeout(seconds):
            said = await hook(msgspec.json.decode(encoded), context)
    except CommandRefused as refused:
        return refused
    except TimeoutError:
        return CommandRefused(Status.TIMEOUT, f"it took more than {seconds:g} s")
    except Exception as error:
        logger.exception("a validator or saver of %s failed", context.collection)
        return CommandRefused(Status.TECHNICAL, f"{type(error).__name__}: {error}")
    return _refusal(said)


def _refusal(said: object) -> CommandRefused | None:
    match said:
        case None | True:
            return None
        case str():
            return CommandRefused(Status.INVALID, said)
        case (int(status), str(text)) if status:
            return CommandRefused(_status(status), text)
        case (int(status), _) if status:
            return CommandRefused(_status(status), "a validator refuses the document")
        case False:
            return CommandRefused(Status.INVALID, "a validator refuses the document")
        case _:
            return None


def _status(status: int) -> Status:
    try:
        return Status(status)
    except ValueError:
        return Status.INVALID
