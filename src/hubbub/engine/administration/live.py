"""Sessions, channels and counters of all nodes as they are now, and publishing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from heapq import nsmallest

from hubbub.domain.errors import BadRequest, HubbubError, NotFound
from hubbub.domain.names import check_name
from hubbub.domain.notices import Member, PublishResult
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import PublishItem
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.audit import AuditLog
from hubbub.engine.administration.survey import (
    Count,
    EndSession,
    FindChannels,
    FindSessions,
    Load,
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


class LiveAdministration:
    """Sessions and figures are those of all nodes."""

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

    # -- sessions -------------------------------------------------------------------------------

    async def sessions(
        self,
        hub: str,
        limit: int,
        after: str = "",
        user_id: str | None = None,
        channel: str | None = None,
    ) -> list[SessionView]:
        """In the order of their ids, those behind `after`."""
        self._node.directory.get(hub)
        if channel is not None:
            check_name(channel, "channel")
        return await self._find(FindSessions(hub, limit, after, user_id, channel))

    async def session(self, hub: str, session_id: str) -> SessionView:
        """Raises `NotFound`."""
        self._node.directory.get(hub)
        found = await self._find(FindSessions(hub, 1, session_id=session_id))
        if not found:
            raise _no_session(hub, session_id)
        return found[0]

    async def _find(self, question: FindSessions) -> list[SessionView]:
        answers, _ = await self._survey.ask(question, list[SessionView])
        found = [session for answer in answers for session in answer]
        return nsmallest(question.limit, found, key=lambda session: session.session_id)

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

    async def live_channels(self, hub: str) -> dict[str, int]:
        """The channels that sessions follow, with the number of sessions."""
        answers, _ = await self._survey.ask(FindChannels(hub), dict[str, int])
        found: Counter[str] = Counter()
        for answer in answers:
            found.update(answer)
        return dict(found)

    # -- the whole ------------------------------------------------------------------------------

    async def topology(self, hub: str | None, channels: int) -> Topology:
        """`channels`: how many of each hub to name at most, the busiest first."""
        return Topology(*await self._survey.ask(Load(hub, channels), NodeLoad))

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


def _no_session(hub: str, session_id: str) -> NotFound:
    return NotFound(f"hub {hub!r} has no session {session_id!r}")
