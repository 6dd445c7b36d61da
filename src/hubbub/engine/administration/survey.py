"""Requests to all nodes: each responds for itself, and the responses are combined.

Nodes that do not respond in time are reported by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

import msgspec

from hubbub.domain.asking import NodeRequest
from hubbub.domain.errors import Denied
from hubbub.engine.access.revocations import ANY_HUB
from hubbub.engine.administration.dry_run import RulesEffect, TryRules, effect_on
from hubbub.engine.administration.lists import (
    ListChannels,
    ListedChannels,
    ListedSessions,
    ListSessions,
    busiest,
    channel_page,
    session_page,
    some_sessions,
)
from hubbub.engine.administration.series import (
    COLUMNS,
    ProcessUsage,
    Series,
    SeriesRecorder,
    Span,
)
from hubbub.engine.administration.views import (
    ChannelLoad,
    Counters,
    HubLoad,
    NodeLoad,
    RestoreView,
    SessionView,
)
from hubbub.engine.counters import HubCounters
from hubbub.engine.hub import Hub, SessionState
from hubbub.engine.node import Node
from hubbub.engine.rooms import NodeHandler

A = TypeVar("A")


class NodeFacts(msgspec.Struct, frozen=True):
    """Role, version and load of a node in the cluster."""

    role: Literal["core", "edge"] = "core"
    version: str = ""
    partitions: int = 0
    channels: int = 0
    """Channels that the node owns and has in memory."""
    links: list[str] = []
    """Other nodes from which it receives heartbeats."""


class FindSession(NodeRequest[list[SessionView]], frozen=True, tag="session"):
    hub: str
    session_id: str


class EndSession(NodeRequest[list[SessionView]], frozen=True, tag="end"):
    hub: str
    session_id: str


class ReadLoad(NodeRequest[NodeLoad], frozen=True, tag="load"):
    """`sessions`: the maximum number of sessions listed per listed channel."""

    hub: str | None
    channels: int
    sessions: int = 0


class Count(NodeRequest[dict[str, Counters]], frozen=True, tag="count"):
    hub: str | None = None


HubSizes = dict[str, tuple[int, int]]


class MeasureHubs(NodeRequest[HubSizes], frozen=True, tag="measure-hubs"):
    """Numbers of sessions and channels of these hubs; without `hubs`, of all in memory."""

    hubs: list[str] | None = None


class Glance(msgspec.Struct, frozen=True):
    """Figures of one node. Rows have the `series.COLUMNS` without the time; `hubs` are those with
    the most sessions. `slow_consumers` and `refused` count since the start of the node;
    `late_seconds` is the delay of its event loop. `known`: the hub exists."""

    node: str
    at: int
    totals: list[int]
    hubs: dict[str, list[int]]
    hub_count: int
    slow_consumers: int
    refused: int
    late_seconds: float
    draining: bool
    known: bool = True


class GlanceAt(NodeRequest[Glance], frozen=True, tag="glance"):
    """Requests the current figures of a hub, or of all (`*`)."""

    hub: str


class FindSeries(NodeRequest[Series], frozen=True, tag="series"):
    hub: str
    span: Span


class CountSessions(NodeRequest[int], frozen=True, tag="count-sessions"):
    """Requests the number of sessions in one channel."""

    hub: str
    channel: str


class FindUsers(NodeRequest[list[str]], frozen=True, tag="users"):
    """Requests the users with a session that is subscribed to the channel."""

    hub: str
    channel: str


class ReadMetrics(NodeRequest[bytes], frozen=True, tag="metrics"):
    """Requests the metrics of the workers of one `group`; others respond with nothing. `asker`
    holds the counters of the asking worker, `known` the times of the last reports that it has: only
    later ones are sent."""

    group: str
    asker: bytes
    known: dict[str, float] = msgspec.field(default_factory=dict)


class SuspendHub(NodeRequest[int], frozen=True, tag="suspend-hub"):
    """The response comes when no work of the hub is in progress on the node."""

    hub: str
    restore: str


class ResumeHub(NodeRequest[None], frozen=True, tag="resume-hub"):
    """`switched`: the hub was replaced; also sent to a node that did not suspend it."""

    hub: str
    restore: str
    switched: bool


class FindRestores(NodeRequest[list[RestoreView]], frozen=True, tag="restores"):
    """Requests the restores that the node remembers."""


_CHANNEL_CHARACTERS = 400
"""Maximum length of the list of channels in a row of the list of sessions."""


class Survey:
    """Sends requests to all nodes, and responds for this one."""

    def __init__(
        self, node: Node, node_name: str, facts: Callable[[], NodeFacts], usage: ProcessUsage
    ) -> None:
        self._node = node
        self.node_name = node_name
        self._facts = facts
        self.series = SeriesRecorder(node, usage)
        self._started_at = node.clock.monotonic()
        self.node_requests: Mapping[type[NodeRequest[Any]], NodeHandler] = {
            ListChannels: self._list_channels,
            ListSessions: self._list_sessions,
            ReadLoad: self._load,
            FindSession: self._find_session,
            EndSession: self._end_session,
            Count: self._count,
            FindUsers: self._find_users,
            GlanceAt: self._glance,
            FindSeries: self._find_series,
            TryRules: self._try_rules,
            CountSessions: self._count_sessions,
            MeasureHubs: self._measure,
        }
        """See `Room.node_requests`."""

    @property
    def alone(self) -> bool:
        """Whether this node runs without a cluster."""
        return self._node.bus.alone

    async def ask(self, question: NodeRequest[A]) -> tuple[list[A], list[str]]:
        """The responses of all nodes, this one's first, and the names of the nodes that did not
        respond."""
        answers = await self._node.bus.ask_all(question)
        return list(answers.given.values()), sorted(answers.missing)

    async def subscribed(self, hub: str, channel: str) -> set[str]:
        """The users with a subscribed session on any node that responds."""
        answers, _ = await self.ask(FindUsers(hub, channel))
        return {user for users in answers for user in users}

    # -- for this node --------------------------------------------------------------------------

    async def _list_channels(self, _: str, question: ListChannels) -> ListedChannels:
        known = self._node.hubs.get(question.hub)
        rows, total = await channel_page(known, question) if known is not None else ([], 0)
        return ListedChannels([(each.figure, each.name) for each in rows], total)

    async def _list_sessions(self, _: str, question: ListSessions) -> ListedSessions:
        known = self._node.hubs.get(question.hub)
        found, total = await session_page(known, question) if known is not None else ([], 0)
        return ListedSessions([self._row(session) for session in found], total)

    async def _find_session(self, _: str, question: FindSession) -> list[SessionView]:
        """A list of one session, or none."""
        known = self._node.hubs.get(question.hub)
        session = known.sessions.get(question.session_id) if known is not None else None
        return [self._view(session)] if session is not None else []

    def _row(self, session: SessionState) -> SessionView:
        """A row with as many channels as fit."""
        names: list[str] = []
        room = _CHANNEL_CHARACTERS
        for name in session.feeds or ():
            room -= len(name)
            if room < 0:
                break
            names.append(name)
        return self._view(session, sorted(names))

    def _view(self, session: SessionState, channels: list[str] | None = None) -> SessionView:
        identity, connection = session.identity, session.connection
        return SessionView(
            session_id=session.id,
            user_id=identity.user_id,
            level=identity.level.value,
            authenticated=identity.authenticated,
            token_id=identity.token_id,
            expires_at=identity.expires_at,
            opened_at=int(session.opened_at * 1000),
            channels=sorted(session.feeds or ()) if channels is None else channels,
            channel_count=len(session.feeds or ()),
            node=self.node_name,
            transport=connection.technology,
            address=session.address,
            queued_bytes=connection.buffered,
            quiet_ms=int((self._node.clock.monotonic() - session.last_seen) * 1000),
        )

    async def _end_session(self, _: str, question: EndSession) -> list[SessionView]:
        """Ends a session on this node. Returns a list with the ended session, or an empty one."""
        known = self._node.hubs.get(question.hub)
        session = known.sessions.get(question.session_id) if known is not None else None
        if session is None:
            return []
        view = self._view(session)
        self._node.end(session, Denied("an administrator ended this session"))
        return [view]

    async def _load(self, _: str, question: ReadLoad) -> NodeLoad:
        facts = self._facts()
        return NodeLoad(
            node=self.node_name,
            uptime_seconds=int(self._node.clock.monotonic() - self._started_at),
            sessions=self._node.session_count,
            hubs=[
                await _load_of(each, question.channels, question.sessions)
                for name, each in sorted(self._node.hubs.items())
                if question.hub in (None, name)
            ],
            role=facts.role,
            version=facts.version,
            partitions=facts.partitions,
            channels=facts.channels,
            cpu_percent=self.series.cpu_percent,
            memory_bytes=self.series.memory_bytes,
            links=facts.links,
        )

    async def _count(self, _: str, question: Count) -> dict[str, Counters]:
        every = self._node.counters
        if question.hub is not None:
            return {question.hub: _counters(every.get(question.hub, HubCounters()))}
        return {name: _counters(counters) for name, counters in sorted(every.items())}

    async def _find_users(self, _: str, question: FindUsers) -> list[str]:
        known = self._node.hubs.get(question.hub)
        if known is None or question.channel not in known.feeds:
            return []
        found = {
            session.identity.user_id
            for session in known.sessions.values()
            if question.channel in (session.feeds or ())
        }
        return sorted(user for user in found if user is not None)

    async def _glance(self, _: str, question: GlanceAt) -> Glance:
        hub = question.hub
        node, series = self._node, self.series
        every = node.counters
        counted = list(every.values()) if hub == ANY_HUB else [every.get(hub, HubCounters())]
        return Glance(
            node=self.node_name,
            at=int(node.clock.now() * 1000),
            totals=series.latest(hub),
            hubs={name: series.latest(name) for name in series.hubs} if hub == ANY_HUB else {},
            hub_count=len(node.hubs),
            slow_consumers=sum(each.slow_consumers for each in counted),
            refused=sum(each.messages_refused for each in counted),
            late_seconds=series.late_seconds,
            draining=node.draining,
            known=hub == ANY_HUB or hub in node.directory or hub in node.hubs,
        )

    async def _find_series(self, _: str, question: FindSeries) -> Series:
        rows = self.series.rows(question.hub, question.span)
        return Series(self.node_name, question.hub, list(COLUMNS), rows)

    async def _try_rules(self, _: str, question: TryRules) -> RulesEffect:
        live = self._node.hubs.get(question.hub)
        return await effect_on(live, question) if live is not None else RulesEffect()

    async def _count_sessions(self, _: str, question: CountSessions) -> int:
        known = self._node.hubs.get(question.hub)
        feed = known.feeds.get(question.channel) if known is not None else None
        return feed.subscribers if feed is not None else 0

    async def _measure(self, _: str, question: MeasureHubs) -> HubSizes:
        hubs = self._node.hubs
        names = hubs if question.hubs is None else [name for name in question.hubs if name in hubs]
        return {name: (len(hubs[name].sessions), len(hubs[name].feeds)) for name in names}


async def _load_of(hub: Hub, channels: int, sessions: int) -> HubLoad:
    found, _ = await busiest(hub, channels) if channels else ([], 0)
    ids = await some_sessions(hub, {each.name for each in found}, sessions)
    return HubLoad(
        hub=hub.name,
        sessions=len(hub.sessions),
        subscriptions=hub.counters.subscriptions,
        channel_count=len(hub.feeds),
        channels=[ChannelLoad(each.name, each.figure, ids.get(each.name, [])) for each in found],
    )


def _counters(counters: HubCounters) -> Counters:
    publishes = counters.publishes
    own = [name for name in Counters.__struct_fields__ if hasattr(counters, name)]
    return Counters(
        **{name: getattr(counters, name) for name in own},
        publish_requests=publishes.count,
        publish_seconds_mean=publishes.seconds / publishes.count if publishes.count else 0.0,
    )


def total(every: list[Counters], silent: list[str]) -> Counters:
    """The sum of several counters."""
    apart = ("publish_seconds_mean", "silent")
    names = [name for name in Counters.__struct_fields__ if name not in apart]
    sums = {name: sum(getattr(counters, name) for counters in every) for name in names}
    publishes = sums["publish_requests"]
    seconds = sum(each.publish_seconds_mean * each.publish_requests for each in every)
    return Counters(
        **sums, publish_seconds_mean=seconds / publishes if publishes else 0.0, silent=silent
    )
