"""What is going on right now: sessions, channels, counters; and publishing into it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from heapq import nsmallest

from hubbub.domain.errors import Denied, HubbubError, NotFound
from hubbub.domain.names import check_name
from hubbub.domain.notices import Member
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import PublishItem
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.audit import AuditLog
from hubbub.engine.administration.views import (
    BatchResult,
    ChannelLoad,
    Counters,
    HubLoad,
    NodeLoad,
    SessionView,
    Topology,
)
from hubbub.engine.counters import HubCounters
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node
from hubbub.engine.session import Session
from hubbub.ports.bus import PublishOutcome


class LiveAdministration:
    """Sessions and loads are those of this node."""

    def __init__(self, node: Node, audit: AuditLog, node_name: str) -> None:
        self._node = node
        self._audit = audit
        self._node_name = node_name
        self._started_at = node.clock.monotonic()

    # -- publishing -----------------------------------------------------------------------------

    async def publish(
        self, identity: Identity, hub_name: str, items: Sequence[PublishItem | HubbubError]
    ) -> list[BatchResult]:
        """Publish what can be, and answer for each in order."""
        hub = self._node.hub(hub_name)
        return list(
            await asyncio.gather(*[self._publish_one(hub, identity, item) for item in items])
        )

    async def _publish_one(
        self, hub: Hub, identity: Identity, item: PublishItem | HubbubError
    ) -> BatchResult:
        if isinstance(item, HubbubError):
            return BatchResult(error=item)
        outcome: asyncio.Future[PublishOutcome] = asyncio.get_running_loop().create_future()

        def conclude(result: PublishOutcome) -> None:
            if not outcome.done():
                outcome.set_result(result)

        try:
            message_id = self._node.publisher.publish(hub, identity, item, conclude, "http")
        except HubbubError as error:
            return BatchResult(error=error)
        concluded = await outcome
        if concluded.error is not None:
            return BatchResult(error=concluded.error)
        return BatchResult(message_id, concluded.serial)

    # -- sessions -------------------------------------------------------------------------------

    def sessions(
        self,
        hub: str,
        limit: int,
        after: str = "",
        user_id: str | None = None,
        channel: str | None = None,
    ) -> list[SessionView]:
        """In the order of their ids, those behind `after`."""
        self._node.directory.get(hub)
        known = self._node.hubs.get(hub)
        if channel is not None:
            check_name(channel, "channel")
        matching = [
            session
            for session in (known.sessions.values() if known is not None else ())
            if session.id > after
            and (user_id is None or session.identity.user_id == user_id)
            and (channel is None or channel in (session.feeds or ()))
        ]
        return [_view(s) for s in nsmallest(limit, matching, key=lambda session: session.id)]

    def session(self, hub: str, session_id: str) -> SessionView:
        """Raises `NotFound`."""
        return _view(self._find(hub, session_id))

    async def disconnect(self, actor: Actor, hub: str, session_id: str) -> None:
        """End a session for good: its restore key dies with it. Raises `NotFound`."""
        session = self._find(hub, session_id)
        user = session.identity.user_id
        self._node.end(session, Denied("an administrator ended this session"))
        await self._audit.note(
            actor, "session.disconnect", hub, session_id, before={"userID": user}
        )

    def _find(self, hub: str, session_id: str) -> Session:
        self._node.directory.get(hub)
        known = self._node.hubs.get(hub)
        session = known.sessions.get(session_id) if known is not None else None
        if session is None:
            raise NotFound(f"hub {hub!r} has no session {session_id!r}")
        return session

    # -- channels -------------------------------------------------------------------------------

    async def presence(self, identity: Identity, hub: str, channel: str) -> tuple[Member, ...]:
        """Who is there. Raises `NotFound` where the rules keep no presence."""
        return await self._node.queries.members(self._node.hub(hub), identity, channel)

    def live_channels(self, hub: str) -> dict[str, int]:
        """The channels that sessions of this node follow, with the number of sessions."""
        known = self._node.hubs.get(hub)
        feeds = known.feeds if known is not None else {}
        return {channel: feed.subscribers for channel, feed in feeds.items()}

    # -- the whole ------------------------------------------------------------------------------

    def topology(self, hub: str | None, channels: int) -> Topology:
        """`channels`: how many of each hub to name at most, the busiest first."""
        hubs = [
            self._load_of(each, channels)
            for name, each in sorted(self._node.hubs.items())
            if hub is None or name == hub
        ]
        node = NodeLoad(
            node=self._node_name,
            uptime_seconds=int(self._node.clock.monotonic() - self._started_at),
            sessions=self._node.session_count,
            hubs=hubs,
        )
        return Topology([node])

    @staticmethod
    def _load_of(hub: Hub, channels: int) -> HubLoad:
        busiest = nsmallest(
            channels, hub.feeds.items(), key=lambda item: (-item[1].subscribers, item[0])
        )
        return HubLoad(
            hub=hub.name,
            sessions=len(hub.sessions),
            subscriptions=hub.counters.subscriptions,
            channel_count=len(hub.feeds),
            channels=[ChannelLoad(name, feed.subscribers) for name, feed in busiest],
        )

    def counters(self, hub: str) -> Counters:
        """What the hub has done since this process began. Raises `HubNotFound`."""
        self._node.directory.get(hub)
        return _counters([self._node.counters.get(hub, HubCounters())])

    def all_counters(self) -> tuple[Counters, dict[str, Counters]]:
        """The sum of all hubs, and each."""
        every = self._node.counters
        each = {name: _counters([counters]) for name, counters in sorted(every.items())}
        return _counters(list(every.values())), each


def _view(session: Session) -> SessionView:
    identity = session.identity
    return SessionView(
        session_id=session.id,
        user_id=identity.user_id,
        level=identity.level.value,
        authenticated=identity.authenticated,
        token_id=identity.token_id,
        expires_at=identity.expires_at,
        opened_at=int(session.opened_at * 1000),
        channels=sorted(session.feeds or ()),
    )


def _counters(every: list[HubCounters]) -> Counters:
    def total(name: str) -> int:
        return sum(getattr(counters, name) for counters in every)

    publishes = total("publish_count")
    seconds = sum(counters.publish_seconds for counters in every)
    return Counters(
        messages_in=total("messages_in"),
        bytes_in=total("bytes_in"),
        messages_out=total("messages_out"),
        bytes_out=total("bytes_out"),
        messages_refused=total("messages_refused"),
        sessions=total("sessions_opened") - total("sessions_closed"),
        sessions_opened=total("sessions_opened"),
        subscriptions=total("subscriptions"),
        slow_consumers=total("slow_consumers"),
        publish_requests=publishes,
        publish_seconds_mean=seconds / publishes if publishes else 0.0,
    )
