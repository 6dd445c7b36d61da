"""Questions that concern all nodes: each answers for itself, and the answers are put together.

A node that does not answer in time is named, never waited for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol

import msgspec

from hubbub.domain.errors import Denied, Malformed
from hubbub.domain.topics import Lag
from hubbub.engine.access.revocations import ANY_HUB
from hubbub.engine.administration.dry_run import RulesEffect, TryRules, effect_on
from hubbub.engine.administration.lists import (
    ListChannels,
    ListSessions,
    busiest,
    channel_page,
    session_page,
    some_sessions,
)
from hubbub.engine.administration.series import (
    COLUMNS,
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


class NodeFacts(msgspec.Struct, frozen=True):
    """Role, version and load of a node in the cluster."""

    role: Literal["core", "edge"] = "core"
    version: str = ""
    partitions: int = 0
    channels: int = 0
    """Those that it owns and has in memory."""
    links: list[str] = []
    """Other nodes that it hears."""


class FindSession(msgspec.Struct, frozen=True, tag="session"):
    hub: str
    session_id: str


class EndSession(msgspec.Struct, frozen=True, tag="end"):
    hub: str
    session_id: str


class Load(msgspec.Struct, frozen=True, tag="load"):
    """`sessions`: how many to name of each channel that is named."""

    hub: str | None
    channels: int
    sessions: int = 0


class Count(msgspec.Struct, frozen=True, tag="count"):
    hub: str | None = None


class ListedChannels(msgspec.Struct, frozen=True):
    """`rows` hold the number of sessions first."""

    rows: list[tuple[int, str]]
    total: int


class ListedSessions(msgspec.Struct, frozen=True):
    rows: list[SessionView]
    total: int


class MeasureHubs(msgspec.Struct, frozen=True, tag="measure-hubs"):
    """Sessions and channels of hubs, of all in memory without `hubs`."""

    hubs: list[str] | None = None


class FindLags(msgspec.Struct, frozen=True, tag="lags"):
    """Durable subscriptions, or webhooks, that are farthest behind."""

    hub: str
    webhooks: bool = False


class GlanceAt(msgspec.Struct, frozen=True, tag="glance"):
    """What happens just now, in a hub or in all (`*`)."""

    hub: str


class Glance(msgspec.Struct, frozen=True):
    """Of one node. Rows are those of `series.COLUMNS` without the time; `hubs` are those with the
    most sessions. `slow_consumers` and `refused` count since the node began; `late_seconds`: by how
    much its turns came late. `known`: there is such a hub."""

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


class FindSeries(msgspec.Struct, frozen=True, tag="series"):
    hub: str
    span: Span


HubSizes = dict[str, tuple[int, int]]


class CountSessions(msgspec.Struct, frozen=True, tag="count-sessions"):
    """Of one channel."""

    hub: str
    channel: str


class FindUsers(msgspec.Struct, frozen=True, tag="users"):
    """Who has a session that is subscribed to the channel."""

    hub: str
    channel: str


class ReadMetrics(msgspec.Struct, frozen=True, tag="metrics"):
    """Of the workers of one `group`; others answer nothing. `asker` are the counters of the worker
    that asks, `known` the times of the last reports of processes that it has: it wants to
    hear later ones."""

    group: str
    asker: bytes
    known: dict[str, float] = {}


class SuspendHub(msgspec.Struct, frozen=True, tag="suspend-hub"):
    """Answered when nothing of the hub is under way on the node."""

    hub: str
    restore: str


class ResumeHub(msgspec.Struct, frozen=True, tag="resume-hub"):
    """`switched`: the hub was replaced, also for a node that has not suspended it."""

    hub: str
    restore: str
    switched: bool


class FindRestores(msgspec.Struct, frozen=True, tag="restores"):
    """Those that the node remembers."""


Question = (
    FindSession
    | EndSession
    | Load
    | Count
    | FindUsers
    | ListChannels
    | ListSessions
    | MeasureHubs
    | FindLags
    | GlanceAt
    | FindSeries
    | CountSessions
    | ReadMetrics
    | TryRules
    | SuspendHub
    | ResumeHub
    | FindRestores
)

_CHANNEL_CHARACTERS = 400
"""Of the channels in a row of the list of sessions."""
_encode = msgspec.msgpack.Encoder().encode
_decode_question: msgspec.msgpack.Decoder[Question] = msgspec.msgpack.Decoder(Question)


class RestoreAnswers(Protocol):
    """The restores of a node, as other nodes ask for them."""

    async def suspend(self, hub: str, restore: str) -> int:
        """How many sessions were told to connect again."""

    async def resume(self, hub: str, restore: str, switched: bool) -> None: ...

    def views(self) -> list[RestoreView]: ...


class Survey:
    """Asks all nodes, and answers for this one."""

    def __init__(self, node: Node, node_name: str, facts: Callable[[], NodeFacts]) -> None:
        self._node = node
        self.node_name = node_name
        self._facts = facts
        self.lags: Callable[[str, bool], list[Lag]] = lambda hub, webhooks: []
        """Set by the wiring: what the node remembers of a hub (`LagSurvey.of_hub`)."""
        self.metrics: Callable[[ReadMetrics], Awaitable[bytes]] = _no_metrics
        """Set by the worker that has siblings (`WorkerMetrics`)."""
        self.restores: RestoreAnswers
        """Set by `Restores`."""
        self.series = SeriesRecorder(node)
        self._started_at = node.clock.monotonic()
        node.bus.answer_with(self._answer_from_afar)

    @property
    def alone(self) -> bool:
        """Whether there is no other node, now and later."""
        return self._node.bus.alone

    async def ask(self, question: Question, kind: Any) -> tuple[list[Any], list[str]]:
        """The answers of all nodes, this one's first; and who did not answer."""
        answers = [await self.answer(question)]
        replies = await self._node.bus.ask_others(_encode(question))
        silent = list(replies.silent)
        for node, data in sorted(replies.answers.items()):
            try:
                answers.append(msgspec.msgpack.decode(data, type=kind))
            except msgspec.MsgspecError:  # of another version
                silent.append(node)
        return answers, sorted(silent)

    async def subscribed(self, hub: str, channel: str) -> set[str]:
        """The users with a session that is subscribed, on all nodes that answer."""
        answers, _ = await self.ask(FindUsers(hub, channel), list[str])
        return {user for users in answers for user in users}

    async def _answer_from_afar(self, data: bytes) -> bytes:
        try:
            question = _decode_question.decode(data)
        except msgspec.MsgspecError as error:
            raise Malformed(f"a question cannot be read: {error}") from error
        return _encode(await self.answer(question))

    async def answer(self, question: Question) -> Any:
        if isinstance(question, ListChannels):
            return await self._list_channels(question)
        if isinstance(question, ListSessions):
            return await self._list_sessions(question)
        if isinstance(question, Load):
            return await self._load(question)
        if isinstance(question, FindSession):
            return self._find_session(question)
        if isinstance(question, EndSession):
            return self._end_session(question)
        if isinstance(question, Count):
            return self._count(question)
        if isinstance(question, FindUsers):
            return self._find_users(question)
        if isinstance(question, GlanceAt):
            return self._glance(question.hub)
        if isinstance(question, FindSeries):
            rows = self.series.rows(question.hub, question.span)
            return Series(self.node_name, question.hub, list(COLUMNS), rows)
        if isinstance(question, TryRules):
            live = self._node.hubs.get(question.hub)
            return await effect_on(live, question) if live is not None else RulesEffect()
        if isinstance(question, CountSessions):
            known = self._node.hubs.get(question.hub)
            feed = known.feeds.get(question.channel) if known is not None else None
            return feed.subscribers if feed is not None else 0
        if isinstance(question, SuspendHub):
            return await self.restores.suspend(question.hub, question.restore)
        if isinstance(question, ResumeHub):
            return await self.restores.resume(question.hub, question.restore, question.switched)
        if isinstance(question, FindRestores):
            return self.restores.views()
        if isinstance(question, ReadMetrics):
            return await self.metrics(question)
        if isinstance(question, FindLags):
            return self.lags(question.hub, question.webhooks)
        return self._measure(question)

    # -- for this node --------------------------------------------------------------------------

    async def _list_channels(self, question: ListChannels) -> ListedChannels:
        known = self._node.hubs.get(question.hub)
        rows, total = await channel_page(known, question) if known is not None else ([], 0)
        return ListedChannels([(each.figure, each.name) for each in rows], total)

    async def _list_sessions(self, question: ListSessions) -> ListedSessions:
        known = self._node.hubs.get(question.hub)
        found, total = await session_page(known, question) if known is not None else ([], 0)
        return ListedSessions([self._row(session) for session in found], total)

    def _find_session(self, question: FindSession) -> list[SessionView]:
        """One session, or none."""
        known = self._node.hubs.get(question.hub)
        session = known.sessions.get(question.session_id) if known is not None else None
        return [self._view(session)] if session is not None else []

    def _row(self, session: SessionState) -> SessionView:
        """With as many channels as fit into a row."""
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

    def _end_session(self, question: EndSession) -> list[SessionView]:
        """The sessions that were ended: one, or none."""
        known = self._node.hubs.get(question.hub)
        session = known.sessions.get(question.session_id) if known is not None else None
        if session is None:
            return []
        view = self._view(session)
        self._node.end(session, Denied("an administrator ended this session"))
        return [view]

    async def _load(self, question: Load) -> NodeLoad:
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

    def _count(self, question: Count) -> dict[str, Counters]:
        every = self._node.counters
        if question.hub is not None:
            return {question.hub: _counters(every.get(question.hub, HubCounters()))}
        return {name: _counters(counters) for name, counters in sorted(every.items())}

    def _find_users(self, question: FindUsers) -> list[str]:
        known = self._node.hubs.get(question.hub)
        if known is None or question.channel not in known.feeds:
            return []
        found = {
            session.identity.user_id
            for session in known.sessions.values()
            if question.channel in (session.feeds or ())
        }
        return sorted(user for user in found if user is not None)

    def _glance(self, hub: str) -> Glance:
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

    def _measure(self, question: MeasureHubs) -> HubSizes:
        hubs = self._node.hubs
        names = hubs if question.hubs is None else [name for name in question.hubs if name in hubs]
        return {name: (len(hubs[name].sessions), len(hubs[name].feeds)) for name in names}


async def _no_metrics(_: ReadMetrics) -> bytes:
    return b""


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
