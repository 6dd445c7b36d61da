"""Sessions, channels and counters of all nodes as they are now, and publishing."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TypeVar, cast

import msgspec

from hubbub.domain.errors import BadRequest, HubbubError, NotFound
from hubbub.domain.names import check_name
from hubbub.domain.notices import Member, PublishResult
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import PublishItem
from hubbub.domain.rules import ChannelSettings, HubConfiguration
from hubbub.domain.setting_checks import problems_of
from hubbub.engine.access.revocations import ANY_HUB
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.audit import AuditLog
from hubbub.engine.administration.dry_run import RulesEffect, TryRules, added
from hubbub.engine.administration.lists import (
    ListChannels,
    ListSessions,
    Ranked,
    cut,
    ranked,
    sifted,
)
from hubbub.engine.administration.series import Series, Span
from hubbub.engine.administration.settings import refuse
from hubbub.engine.administration.survey import (
    Count,
    EndSession,
    FindSeries,
    FindSession,
    HubSizes,
    ListedChannels,
    ListedSessions,
    Load,
    MeasureHubs,
    Survey,
    total,
)
from hubbub.engine.administration.views import (
    Counters,
    NodeLoad,
    SessionView,
    Topology,
)
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node

_REMEMBERED_HUBS = 100

L = TypeVar("L", ListChannels, ListSessions)


class LiveAdministration:
    """Sessions and figures are those of all nodes."""

    def __init__(self, node: Node, audit: AuditLog, survey: Survey) -> None:
        self._node = node
        self._audit = audit
        self._survey = survey
        self._sorted: dict[str, tuple[Mapping[str, ChannelSettings], list[str]]] = {}

    # -- publishing -----------------------------------------------------------------------------

    async def publish(
        self,
        identity: Identity,
        hub: str,
        items: Sequence[PublishItem | HubbubError],
        technology: str,
    ) -> list[PublishResult]:
        """Publish what can be; a result for each, in order. Raises `BadRequest`, `HubNotFound`."""
        if not items:
            raise BadRequest("'publishes' is empty; give at least one message")
        known = self._node.hub(hub)
        return await asyncio.gather(
            *(self._publish_one(known, identity, item, technology) for item in items)
        )

    async def _publish_one(
        self, hub: Hub, identity: Identity, item: PublishItem | HubbubError, technology: str
    ) -> PublishResult:
        try:
            if isinstance(item, HubbubError):
                raise item
            message_id, outcome = await self._node.publisher.settle(hub, identity, item, technology)
            if outcome.error is not None:
                raise outcome.error
        except HubbubError as error:
            return PublishResult(0, error=error)
        known = outcome.message_id if outcome.duplicate else message_id
        return PublishResult(0, known, outcome.serial, duplicate=outcome.duplicate)

    # -- lists ----------------------------------------------------------------------------------

    async def sessions(self, question: ListSessions) -> tuple[list[SessionView], str | None, int]:
        """A page in the order that is wanted, the cursor of the next page, and how many there are
        in all. Raises `HubNotFound`, `BadRequest`."""
        self._node.directory.get(question.hub)
        if question.channel is not None:
            check_name(question.channel, "channel")
        answers, _ = await self._survey.ask(_one_more(question), ListedSessions)
        found = [session for answer in answers for session in answer.rows]
        rows_total = sum(answer.total for answer in answers)
        if question.sort == "id":
            found.sort(key=lambda session: session.session_id)
            return *cut(found, question.limit, lambda each: each.session_id), rows_total
        found.sort(key=_opened, reverse=True)
        return *cut(found, question.limit, lambda each: _opened(each).cursor), rows_total

    async def channels(
        self, question: ListChannels, live: bool
    ) -> tuple[list[Ranked], str | None, int]:
        """The same, of channels with the number of their sessions; without `live` also those that
        have settings only."""
        configuration = self._node.directory.get(question.hub)
        answers, _ = await self._survey.ask(_one_more(question), ListedChannels)
        sessions: Counter[str] = Counter()
        for answer in answers:
            sessions.update({name: count for count, name in answer.rows})
        rows_total = sum(answer.total for answer in answers)
        if not live:
            named, more = await self._without_sessions(configuration, question)
            rows_total += more
            sessions.update(dict.fromkeys(named, 0))
        rows = [Ranked(count, name) for name, count in sessions.items()]
        if question.sort == "name":
            rows.sort(key=lambda each: each.name)
            return *cut(rows, question.limit, lambda each: each.name), rows_total
        after = ranked(question.after)
        rows = sorted((each for each in rows if each < after), reverse=True)
        return *cut(rows, question.limit, lambda each: each.cursor), rows_total

    async def _without_sessions(
        self, configuration: HubConfiguration, question: ListChannels
    ) -> tuple[list[str], int]:
        """Channels with settings of their own: those that may be in the page, and how many match
        that have no sessions here."""
        names, q, prefix = self._in_order(configuration), question.q, question.prefix
        if q or prefix:
            names = await sifted(
                names, lambda part: [name for name in part if q in name and name.startswith(prefix)]
            )
        here = self._node.hubs.get(question.hub)
        feeds = here.feeds if here is not None else {}
        silent = len(names) - sum(map(feeds.__contains__, names))
        wanted = question.limit + 1
        if question.sort == "name":
            start = bisect_right(names, question.after)
            return names[start : start + wanted], silent
        figure, name = ranked(question.after)
        end = len(names) if figure else bisect_left(names, name)
        backwards = (names[at] for at in range(end - 1, -1, -1) if names[at] not in feeds)
        return list(islice(backwards, wanted)), silent

    def _in_order(self, configuration: HubConfiguration) -> list[str]:
        """The channels with settings of their own; sorted again only where they changed."""
        known = self._sorted.get(configuration.hub)
        if known is None or known[0] is not configuration.channels:
            if len(self._sorted) >= _REMEMBERED_HUBS:
                self._sorted.clear()
            known = configuration.channels, sorted(configuration.channels)
            self._sorted[configuration.hub] = known
        return known[1]

    async def hub_sizes(self, hubs: list[str] | None) -> HubSizes:
        """Sessions and channels of these hubs, or of all, over all nodes."""
        answers, _ = await self._survey.ask(MeasureHubs(hubs), HubSizes)
        sizes: HubSizes = {}
        for answer in answers:
            for name, (sessions, channels) in answer.items():
                before = sizes.get(name, (0, 0))
                sizes[name] = (before[0] + sessions, before[1] + channels)
        return sizes

    # -- sessions -------------------------------------------------------------------------------

    async def session(self, hub: str, session_id: str) -> SessionView:
        """Raises `NotFound`."""
        self._node.directory.get(hub)
        question = FindSession(hub, session_id)
        answers, _ = await self._survey.ask(question, list[SessionView])
        for found in answers:
            if found:
                return cast(SessionView, found[0])
        raise _no_session(hub, session_id)

    async def disconnect(self, actor: Actor, hub: str, session_id: str) -> None:
        """End a session for good: its restore key dies with it. Raises `NotFound`."""
        self._node.directory.get(hub)
        answers, _ = await self._survey.ask(EndSession(hub, session_id), list[SessionView])
        ended = [session for answer in answers for session in answer]
        if not ended:
            raise _no_session(hub, session_id)
        user = ended[0].user_id
        await self._audit.note(
            actor, "session.disconnect", hub, session_id, before={"userID": user}
        )

    # -- channels -------------------------------------------------------------------------------

    async def presence(self, identity: Identity, hub: str, channel: str) -> tuple[Member, ...]:
        """The members of a channel. Raises `NotFound` where the rules keep no presence."""
        return await self._node.queries.members(self._node.hub(hub), identity, channel)

    # -- rules ----------------------------------------------------------------------------------

    async def try_rules(self, question: TryRules) -> RulesEffect:
        """What the rules would do if they were stored. Raises `HubNotFound`, `BadRequest`."""
        self._node.directory.get(question.hub)
        check_name(question.name, "rules")
        refuse(problems_of(question.rules))
        answers, _ = await self._survey.ask(question, RulesEffect)
        return added(answers)

    # -- series ---------------------------------------------------------------------------------

    async def series(self, hub: str, span: Span) -> tuple[list[Series], list[str]]:
        """Of each node that answers; and who did not. Raises `HubNotFound`."""
        if hub != ANY_HUB:
            self._node.directory.get(hub)
        return await self._survey.ask(FindSeries(hub, span), Series)

    # -- the whole ------------------------------------------------------------------------------

    async def topology(self, hub: str | None, channels: int, sessions: int = 0) -> Topology:
        """`channels`: how many of each hub to name at most, the busiest first, and of each of them
        so many `sessions`."""
        return Topology(*await self._survey.ask(Load(hub, channels, sessions), NodeLoad))

    async def hub_topology(self, hub: str, channels: int, sessions: int = 0) -> Topology:
        """The same as a hub may see it: nothing of other hubs, nor of machines. Raises
        `HubNotFound`."""
        self._node.directory.get(hub)
        return of_hub(await self.topology(hub, channels, sessions))

    async def counters(self, hub: str) -> Counters:
        """The counters of a hub since the nodes started. Raises `HubNotFound`."""
        self._node.directory.get(hub)
        answers, silent = await self._survey.ask(Count(hub), dict[str, Counters])
        return total([answer[hub] for answer in answers], silent)

    async def all_counters(self) -> tuple[Counters, dict[str, Counters]]:
        """The sum of all hubs, and each."""
        answers, silent = await self._survey.ask(Count(), dict[str, Counters])
        hubs: dict[str, list[Counters]] = {}
        for answer in answers:
            for hub, counters in answer.items():
                hubs.setdefault(hub, []).append(counters)
        each = {hub: total(every, silent) for hub, every in sorted(hubs.items())}
        return total(list(each.values()), silent), each


def of_hub(topology: Topology) -> Topology:
    """What a single hub may see of it."""
    nodes = [
        NodeLoad(
            node=each.node,
            uptime_seconds=each.uptime_seconds,
            sessions=sum(hub.sessions for hub in each.hubs),
            hubs=each.hubs,
            role=each.role,
            version=each.version,
        )
        for each in topology.nodes
    ]
    return Topology(nodes, topology.silent)


def _one_more(question: L) -> L:
    """Of each node, so that it shows whether there is a next page."""
    return msgspec.structs.replace(question, limit=question.limit + 1)


def _opened(session: SessionView) -> Ranked:
    return Ranked(session.opened_at, session.session_id)


def _no_session(hub: str, session_id: str) -> NotFound:
    return NotFound(f"hub {hub!r} has no session {session_id!r}")
