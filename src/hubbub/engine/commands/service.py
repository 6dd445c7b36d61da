"""The command service for all gateways. Every command gets an hResult, whatever fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from difflib import get_close_matches
from typing import Any, Final

import msgspec

from hubbub.domain.commands.jids import HUB_USER, Jid, parse_jid
from hubbub.domain.commands.objects import HCommand, HResult, read_command, refusal
from hubbub.domain.commands.status import (
    CommandRefused,
    Status,
    not_authorized,
    not_available,
)
from hubbub.domain.errors import (
    HubbubError,
)
from hubbub.domain.permissions import Level
from hubbub.engine.commands.archive import CommandArchive
from hubbub.engine.commands.asking import Asker, CommandPlugins, CommandRouter, Handler
from hubbub.engine.commands.channels import ChannelCommands
from hubbub.engine.commands.collections import Collections
from hubbub.engine.commands.failures import status_of
from hubbub.engine.commands.filters import FilterCommands
from hubbub.engine.commands.history import HistoryCommands
from hubbub.engine.commands.plugins import PluginCommands
from hubbub.engine.commands.publishing import PublishCommand
from hubbub.engine.commands.records import ChannelRecords
from hubbub.engine.commands.searching import SearchCommand, Searcher
from hubbub.engine.commands.statistics import StatisticsCommand
from hubbub.engine.directory import Directory
from hubbub.engine.hub import Hub
from hubbub.engine.limits import EngineLimits
from hubbub.engine.publishing import Publisher
from hubbub.engine.sessions.filtering import SessionFilters
from hubbub.engine.storing.hooks import StoringHooks
from hubbub.ports.bus import Bus
from hubbub.ports.clock import Clock
from hubbub.ports.plugins import PluginHost, Plugins
from hubbub.ports.storage import Store

logger = logging.getLogger(__name__)

DEFAULT_TIMEOUT_MS: Final = 5000
ECHO: Final = "hecho"


class Commands:
    """Executes the commands of all hubs of one node."""

    def __init__(
        self,
        *,
        store: Store,
        bus: Bus,
        clock: Clock,
        directory: Directory,
        publisher: Publisher,
        filters: SessionFilters,
        limits: EngineLimits,
        router: CommandRouter,
        hooks: StoringHooks,
        plugins: Plugins | None,
        search: Callable[[], Searcher],
    ) -> None:
        """`hooks` validate channels and subscriptions; messages are validated where they are
        published."""
        self._clock = clock
        self.router = router
        self._archive = CommandArchive(publisher)
        records = ChannelRecords(store)
        channels = ChannelCommands(store, bus, directory, records, hooks, limits.session_channels)
        history = HistoryCommands(bus, clock, records)
        filtering = FilterCommands(filters, records)
        searching = SearchCommand(search)
        statistics = StatisticsCommand(store, records)
        publishing = PublishCommand(publisher, clock, records, router)
        self._plugins: CommandPlugins | None = None
        if plugins is not None:
            collections = Collections(store, clock, publisher, records, history)
            self._plugins = PluginCommands(plugins, collections)
        builtin: dict[str, Handler] = {
            "hEcho": _echo,
            "hCreateUpdateChannel": channels.create_or_update,
            "hSubscribe": channels.subscribe,
            "hUnsubscribe": channels.unsubscribe,
            "hPublish": publishing.publish,
            "hGetSubscriptions": channels.subscriptions,
            "hGetChannels": channels.visible,
            "hGetLastMessages": history.last_messages,
            "hRelevantMessages": history.relevant_messages,
            "hGetThread": history.thread,
            "hGetThreads": history.threads,
            "hSearch": searching.search,
            "hStatistics": statistics.statistics,
            "hSetFilter": filtering.set,
            "hUnsetFilter": filtering.unset,
            "hListFilters": filtering.listed,
        }
        self._builtin = {name.lower(): handler for name, handler in builtin.items()}
        self._names = {name.lower(): name for name in builtin}

    def host(self, hub: Hub, sender: str) -> PluginHost:
        """The hub's operations for a validator or saver of a plugin."""
        assert self._plugins is not None
        return self._plugins.host(hub, sender, self.execute)

    async def answer(self, asker: Asker, given: object) -> HResult:
        """The result of an hCommand that arrived as a JSON value."""
        begun = self.begin(asker, given)
        return begun if isinstance(begun, HResult) else await begun

    def begin(self, asker: Asker, given: object) -> HResult | Coroutine[Any, Any, HResult]:
        """Like `answer`, but returns the result directly, or a coroutine if it must wait."""
        try:
            command = read_command(given)
        except CommandRefused as error:
            return refusal(given, error)
        return self.begin_read(asker, command)

    async def execute(self, asker: Asker, command: HCommand) -> HResult:
        begun = self.begin_read(asker, command)
        return begun if isinstance(begun, HResult) else await begun

    def begin_read(self, asker: Asker, command: HCommand) -> HResult | Coroutine[Any, Any, HResult]:
        try:
            acting = self._acting(asker, command)
            entity = _entity(asker, command)
        except CommandRefused as error:
            return HResult(command.cmd, command.reqid, error.status, error.text)
        if (
            command.cmd.lower() == ECHO
            and entity.user == HUB_USER
            and command.transient is not False
        ):
            return HResult(command.cmd, command.reqid, Status.OK, command.params)
        return self._execute(acting, command, entity)

    async def _execute(self, asker: Asker, command: HCommand, entity: Jid) -> HResult:
        if command.sent is None:
            now = int(self._clock.now() * 1000)
            command = msgspec.structs.replace(command, sent=now)
        result = await self._result(asker, command, entity)
        if command.transient is False:
            await self._archive.keep(asker, command, result)
        return result

    async def _result(self, asker: Asker, command: HCommand, entity: Jid) -> HResult:
        try:
            return await self._dispatch(asker, command, entity)
        except CommandRefused as error:
            status, text = int(error.status), error.text
        except HubbubError as error:
            status, text = status_of(error), error.message
        except TimeoutError:
            status, text = Status.TIMEOUT, f"{command.cmd} took too long"
        except Exception:
            logger.exception(
                "hub %s: the command %r failed in an unforeseen way",
                asker.hub.name,
                command.cmd[:40],
            )
            status, text = Status.TECHNICAL, "the hub failed to handle the command"
        return HResult(command.cmd, command.reqid, status, text)

    async def _dispatch(self, asker: Asker, command: HCommand, entity: Jid) -> HResult:
        """Raises `CommandRefused`, `HubbubError` and `TimeoutError`."""
        if entity.user != HUB_USER:
            return await self.router.route(asker, command, entity)
        name = command.cmd.lower()
        handler = self._builtin.get(name)
        if handler is None:
            plugin = self._plugins.find(asker.hub, name) if self._plugins is not None else None
            if plugin is None:
                raise not_available(self._unknown(command.cmd[:60]))
            return await plugin.run(asker, command, self.execute)
        async with asyncio.timeout((command.timeout_ms or DEFAULT_TIMEOUT_MS) / 1000):
            result = await handler(asker, command.params)
        return HResult(command.cmd, command.reqid, Status.OK, result)

    def _unknown(self, name: str) -> str:
        similar = get_close_matches(name.lower(), self._names, n=1)
        hint = f"; did you mean {self._names[similar[0]]}?" if similar else ""
        return f"there is no command {name!r}{hint}"

    def _acting(self, asker: Asker, command: HCommand) -> Asker:
        """The identity under which the command runs: the sender's, or that of the requester named
        by a service. Raises `CommandRefused`."""
        hub, identity = asker.hub, asker.identity
        if not hub.configuration.settings.commands:
            raise not_available(
                f"hub {hub.name!r} takes no commands; its setting `commands` is off"
            )
        if identity.user_id is None:
            raise not_authorized(
                "commands are for users: authenticate with a token that names one "
                "(`hubbub token --user NAME` makes it; the command line takes it as --token)"
            )
        if identity.level is Level.VIEWER:
            raise not_authorized("viewers look on; commands are for clients and services")
        sender, asking = parse_jid(command.sender), Jid(identity.user_id, hub.name)
        assert sender is not None
        if sender.bare != asking or sender.user == HUB_USER:
            raise not_authorized(f"sender is {command.sender!r}, but {str(asking)!r} asks")
        requester = parse_jid(command.requester) if command.requester is not None else None
        if requester is None or requester.bare == sender.bare:
            return asker
        if not asker.speaks_for_others or requester.domain != hub.name:
            raise not_authorized(
                f"requester is {command.requester!r}; only services act for other users of the hub"
            )
        acting = msgspec.structs.replace(identity, user_id=requester.user)
        return Asker(hub, acting, asker.session, asker.technology)


async def _echo(asker: Asker, params: Any) -> Any:
    return params


def _entity(asker: Asker, command: HCommand) -> Jid:
    """Raises `CommandRefused` (9) for a channel and for another domain."""
    entity = parse_jid(command.entity)
    assert entity is not None
    if command.entity.startswith("#") or entity.domain != asker.hub.name:
        raise not_available(f"entity {command.entity!r} is nobody of {asker.hub.name!r}")
    return entity
