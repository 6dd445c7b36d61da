"""Commands of plugins: runs them in their processes and serves their requests to the hub."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Final

import msgspec

from hubbub.domain.commands.attributes import (
    read_moment,
    read_required_text,
    read_text,
)
from hubbub.domain.commands.jids import HUB_USER, Jid, hub_jid, parse_jid, parse_target
from hubbub.domain.commands.mapping import to_item
from hubbub.domain.commands.objects import HCommand, HMessage, HResult, write_command
from hubbub.domain.commands.status import CommandRefused, Status, invalid, not_available
from hubbub.domain.errors import HubbubError
from hubbub.domain.filters.view import MessageView
from hubbub.domain.messages import Message
from hubbub.domain.permissions import Identity, Level
from hubbub.domain.plugins.shape import RUN, PluginShape
from hubbub.domain.shown import shown
from hubbub.engine.commands.asking import Asker, CommandPlugins, Execute, PluginCommand
from hubbub.engine.commands.collections import Collections, is_own
from hubbub.engine.commands.failures import status_of
from hubbub.engine.commands.history import filters_of
from hubbub.engine.delivery.screening import Screening
from hubbub.engine.hub import Hub
from hubbub.ports.plugins import CallContext, PluginCall, PluginHost, PluginReply, Plugins

logger = logging.getLogger(__name__)

MAX_DEPTH: Final = 4
"""Maximum depth of plugins that wait for each other."""
_VIEW_CHECKS: Final = 100
"""Comparisons that take as long as reading an hMessage of a plugin."""
_depth: ContextVar[int] = ContextVar("_depth", default=0)


class PluginRefused(Exception):
    """A command requested by a plugin ended with an unsuccessful status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class PluginCommands(CommandPlugins):
    def __init__(self, plugins: Plugins, collections: Collections) -> None:
        self._plugins = plugins
        self._collections = collections

    def host(self, hub: Hub, sender: str, execute: Execute) -> PluginHost:
        """The host of a validator or saver, in the name of the document's sender."""
        jid = parse_jid(sender) or Jid(HUB_USER, hub.name)
        asker = Asker(hub, Identity(user_id=jid.user, level=Level.CLIENT))
        return _Host(asker, execute, self._collections, _depth.get())

    def find(self, hub: Hub, name: str) -> PluginCommand | None:
        shape = self._plugins.find(name)
        if shape is None or not shape.run:
            return None
        return _Plugin(self._plugins, name, shape, self._collections)


class _Plugin(PluginCommand):
    def __init__(self, plugins: Plugins, name: str, shape: PluginShape, kept: Collections) -> None:
        self._plugins = plugins
        self._name = name
        self._shape = shape
        self._collections = kept

    async def run(self, asker: Asker, command: HCommand, execute: Execute) -> HResult:
        depth = _depth.get()
        if depth >= MAX_DEPTH:
            raise not_available(f"{command.cmd}: plugins wait for each other {depth} deep")
        session = "" if asker.session is None else asker.session.id
        call = PluginCall(
            self._name,
            RUN,
            msgspec.json.encode(write_command(command)),
            CallContext(asker.hub.name, str(asker.jid), session),
            self._shape.timeout_ms,
        )
        host = _Host(asker, execute, self._collections, depth)
        reply = await self._plugins.call(asker.hub.name, call, host)
        result = reply.text or msgspec.json.decode(reply.value)
        return HResult(command.cmd, command.reqid, reply.status, result)


class _Host(PluginHost):
    """Serves the requests of one call, in the name of its asker or of another user."""

    def __init__(
        self, asker: Asker, execute: Execute, collections: Collections, depth: int
    ) -> None:
        self._asker = asker
        self._executed = execute
        self._collections = collections
        self._level = depth + 1
        self._operations: dict[str, Callable[..., Awaitable[Any]]] = {
            "filter_messages": self._filter_messages,
            "publish": self._publish,
            "command": self._command,
            "find": self._find,
            "channel": self._channel,
            "save": self._save,
        }

    async def ask(self, operation: str, arguments: bytes) -> PluginReply:
        _depth.set(self._level)
        try:
            value = await self._asked(operation, arguments)
            return PluginReply(value=msgspec.json.encode(value))
        except (CommandRefused, PluginRefused) as refused:
            return PluginReply(int(refused.status), text=refused.text)
        except HubbubError as error:
            return PluginReply(int(status_of(error)), text=error.message)
        except Exception:
            logger.exception(
                "hub %s: %s of a plugin failed in an unforeseen way",
                self._asker.hub.name,
                operation[:40],
            )
            return PluginReply(int(Status.TECHNICAL), text="the hub failed to answer the plugin")

    async def _asked(self, operation: str, arguments: bytes) -> Any:
        values = msgspec.json.decode(arguments)
        handler = self._operations.get(operation)
        if handler is None or not isinstance(values, list):
            raise invalid(f"the context has no {shown(operation)}")
        try:
            return await handler(*values)
        except TypeError as error:
            raise invalid(f"{operation}: {error}") from None

    async def _filter_messages(self, messages: object) -> Any:
        if not isinstance(messages, list):
            raise invalid(f"messages are {shown(messages)}; give a list")
        now, slices = self._collections.now(), self._asker.hub.slices
        screening = Screening(filters_of(self._asker), now, slices)
        found = []
        for each in messages:
            if await screening.admits(self._view(each), made=_VIEW_CHECKS):
                found.append(each)
        return found

    def _view(self, given: object) -> MessageView:
        """A message in the form that filters test. Raises `CommandRefused`."""
        if not isinstance(given, dict):
            raise invalid(f"a message is {shown(given)}; give an hMessage")
        hub = self._asker.hub.name
        publisher = parse_jid(read_required_text(given, "publisher"))
        known = HMessage(
            chid=read_required_text(given, "chid"),
            publisher="" if publisher is None else str(publisher),
            convid=read_text(given, "convid"),
            type=read_text(given, "type"),
            priority=given.get("priority"),
            relevance=read_moment(given, "relevance"),
            location=given.get("location"),
            author=read_text(given, "author"),
            headers=given.get("headers"),
            payload=given.get("payload"),
        )
        channel = parse_target(known.chid, hub)
        item = to_item(known, channel if isinstance(channel, str) else "")
        message = Message(
            read_text(given, "msgid") or "",
            hub,
            item.channel,
            item.event,
            item.payload,
            item.content_type,
            read_moment(given, "published") or 0,
            publisher=None if publisher is None else publisher.user,
            attributes=item.attributes,
        )
        return MessageView(message, self._collections.now())

    async def _publish(self, message: object, as_user: object = None) -> Any:
        if not isinstance(message, dict):
            raise invalid(f"message is {shown(message)}; give an hMessage")
        jid = self._acting(as_user)
        return await self._execute("hPublish", {"publisher": str(jid), **message}, jid)

    async def _command(self, cmd: object, params: object = None, as_user: object = None) -> Any:
        if not isinstance(cmd, str):
            raise invalid(f"cmd is {shown(cmd)}; give the name of a command")
        return await self._execute(cmd, params, self._acting(as_user))

    async def _find(self, collection: object, criteria: object, sort: object, limit: object) -> Any:
        return await self._collections.find(self._asker, collection, criteria, sort, limit)

    async def _channel(self, chid: object) -> Any:
        return await self._collections.channel(self._asker.hub, chid)

    async def _save(self, collection: object, document: object) -> Any:
        if not isinstance(document, dict):
            raise invalid(f"document is {shown(document)}; give an object")
        if isinstance(collection, str) and collection.startswith("#"):
            return await self._publish({**document, "chid": collection, "transient": False})
        if collection == "hChannels":
            owner = document.get("owner")
            return await self._command("hCreateUpdateChannel", document, owner)
        if not isinstance(collection, str) or not is_own(collection):
            raise invalid(
                f"collection is {shown(collection)}; give #channel, hChannels or a name of yours"
            )
        return await self._collections.save(self._asker, collection, document)

    async def _execute(self, cmd: str, params: object, jid: Jid) -> Any:
        asker = self._asker
        if jid.bare != asker.jid.bare:
            identity = Identity(user_id=jid.user, level=Level.CLIENT)
            asker = Asker(asker.hub, identity, None, asker.technology)
        entity = str(hub_jid(asker.hub.name))
        command = HCommand("plugin", str(asker.jid), entity, cmd, params=params)
        result = await self._executed(asker, command)
        if result.status:
            raise PluginRefused(result.status, str(result.result))
        return None if result.result is msgspec.UNSET else result.result

    def _acting(self, as_user: object) -> Jid:
        """The user in whose name the plugin acts. Raises `CommandRefused`."""
        hub = self._asker.hub.name
        if as_user is None:
            return self._asker.jid
        if not isinstance(as_user, str) or not as_user:
            raise invalid(f"as_user is {shown(as_user)}; give the JID of a user")
        jid = parse_jid(as_user) if "@" in as_user else Jid(as_user, hub)
        if jid is None or jid.domain != hub or jid.user == HUB_USER:
            raise invalid(f"as_user is {shown(as_user)}; give the JID of a user of {hub!r}")
        return jid.bare
