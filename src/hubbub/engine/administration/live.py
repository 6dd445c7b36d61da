"""Current sessions, channels and counters of all nodes; publishing by administrators."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from hubbub.domain.errors import BadRequest, HubbubError, NotFound
from hubbub.domain.names import check_name
from hubbub.domain.notices import Member, PublishResult
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import PublishItem
from hubbub.domain.setting_checks import problems_of
from hubbub.engine.access.revocations import ANY_HUB
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.audit import AuditLog
from hubbub.engine.administration.dry_run import RulesEffect, TryRules, added
from hubbub.engine.administration.lists import (
    ListSessions,
    Ranked,
    cut,
)
from hubbub.engine.administration.series import Series, Span
from hubbub.engine.administration.settings import refuse
from hubbub.engine.administration.survey import (
    Count,
    EndSession,
    FindSeries,
    FindSession,
    HubSizes,
    MeasureHubs,
    ReadLoad,
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

_ITEMS_IN_A_TURN = 200


class LiveAdministration:
    """Sessions and counters cover all nodes."""

    def __init__(self, node: Node, audit: AuditLog, survey: Survey) -> None:
        self._node = node
        self._audit = audit
        self._survey = survey

    # -- publishing -----------------------------------------------------------------------------

    async def publish(
        self,
        identity: Identity,
        hub: str,
        items: Sequence[PublishItem | HubbubError],
        technology: str,
    ) -> list[PublishResult]:
        """Publishes the items and returns one result per item, in order. Raises `BadRequest`,
        `HubNotFound`."""
        if not items:
            raise BadRequest("'publishes' is empty; give at least one message")
        known = self._node.hub(hub)
        publishing: list[asyncio.Task[PublishResult]] = []
        for item in items:
            if len(publishing) % _ITEMS_IN_A_TURN == _ITEMS_IN_A_TURN - 1:
                await asyncio.sleep(0)
            work = self._publish_one(known, identity, item, technology)
            publishing.append(asyncio.create_task(work))
        return await asyncio.gather(*publishing)

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
        """A page in the requested order, the cursor of the next page, and the number of all
        sessions. Raises `HubNotFound`, `BadRequest`."""
        self._node.directory.get(question.hub)
        if question.channel is not None:
            check_name(question.channel, "channel")
        answers, _ = await self._survey.ask(_one_more(question))
        found = [session for answer in answers for session in answer.rows]
        rows_total = sum(answer.total for answer in answers)
        if question.sort == "id":
            found.sort(key=lambda session: session.session_id)
            return *cut(found, question.limit, lambda each: each.session_id), rows_total
        found.sort(key=_opened, reverse=True)
        return *cut(found, question.limit, lambda each: _opened(each).cursor), rows_total

    async def hub_sizes(self, hubs: list[str] | None) -> HubSizes:
        """Numbers of sessions and channels of these hubs, or of all, over all nodes."""
        answers, _ = await self._survey.ask(MeasureHubs(hubs))
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
        answers, _ = await self._survey.ask(question)
        for found in answers:
            if found:
                return found[0]
        raise _no_session(hub, session_id)

    async def disconnect(self, actor: Actor, hub: str, session_id: str) -> None:
        """Ends a session; it cannot be restored. Raises `NotFound`."""
        self._node.directory.get(hub)
        user = (await self.session(hub, session_id)).user_id
        await self._audit.note(
            actor, "session.disconnect", hub, session_id, before={"userID": user}
        )
        answers, _ = await self._survey.ask(EndSession(hub, session_id))
        if not any(answers):
            raise _no_session(hub, session_id)

    # -- channels -------------------------------------------------------------------------------

    async def presence(self, identity: Identity, hub: str, channel: str) -> tuple[Member, ...]:
        """The members of a channel. Raises `NotFound` if the rules disable presence."""
        return await self._node.queries.members(self._node.hub(hub), identity, channel)

    # -- rules ----------------------------------------------------------------------------------

    async def try_rules(self, question: TryRules) -> RulesEffect:
        """The effect that the rules would have. Raises `HubNotFound`, `BadRequest`."""
        self._node.directory.get(question.hub)
        check_name(question.name, "rules")
        refuse(problems_of(question.rules))
        answers, _ = await self._survey.ask(question)
        return added(answers)

    # -- series ---------------------------------------------------------------------------------

    async def series(self, hub: str, span: Span) -> tuple[list[Series], list[str]]:
        """The series of each node that responds, and the names of the others. Raises
        `HubNotFound`."""
        if hub != ANY_HUB:
            self._node.directory.get(hub)
        return await self._survey.ask(FindSeries(hub, span))

    # -- the whole ------------------------------------------------------------------------------

    async def topology(self, hub: str | None, channels: int, sessions: int = 0) -> Topology:
        """`channels`: the maximum number of channels listed per hub, the busiest first, each with
        at most `sessions` sessions."""
        return Topology(*await self._survey.ask(ReadLoad(hub, channels, sessions)))

    async def hub_topology(self, hub: str, channels: int, sessions: int = 0) -> Topology:
        """The topology as a hub may see it, without other hubs and machines. Raises
        `HubNotFound`."""
        self._node.directory.get(hub)
        return of_hub(await self.topology(hub, channels, sessions))

    async def counters(self, hub: str) -> Counters:
        """A hub's counters since the nodes started. Raises `HubNotFound`."""
        self._node.directory.get(hub)
        answers, silent = await self._survey.ask(Count(hub))
        return total([answer[hub] for answer in answers], silent)

    async def all_counters(self) -> tuple[Counters, dict[str, Counters]]:
        """The counters of each hub, and their sum."""
        answers, silent = await self._survey.ask(Count())
        hubs: dict[str, list[Counters]] = {}
        for answer in answers:
            for hub, counters in answer.items():
                hubs.setdefault(hub, []).append(counters)
        each = {hub: total(every, silent) for hub, every in sorted(hubs.items())}
        return total(list(each.values()), silent), each


def of_hub(topology: Topology) -> Topology:
    """The part of the topology that a single hub may see."""
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


def _one_more(question: ListSessions) -> ListSessions:
    """Asks each node for limit + 1 rows, which shows whether there is a next page."""
    return msgspec.structs.replace(question, limit=question.limit + 1)


def _opened(session: SessionView) -> Ranked:
    return Ranked(session.opened_at, session.session_id)


def _no_session(hub: str, session_id: str) -> NotFound:
    return NotFound(f"hub {hub!r} has no session {session_id!r}")
