"""A node: everything that serves the sessions connected to this process.

Gateways open sessions here and pass requests to them. The node keeps hubs in memory, checks
heartbeats and deadlines, and applies changed settings."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Collection, Coroutine, Iterable, Iterator, Mapping
from math import inf
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

from hubbub.domain.asking import FeedEvent, NodeRequest
from hubbub.domain.envelope_headers import from_headers
from hubbub.domain.errors import (
    HUB_AWAY,
    GoingAway,
    HubbubError,
    HubNotFound,
    QuotaExceeded,
)
from hubbub.domain.messages import Attributes, Message
from hubbub.domain.notices import SessionInfo
from hubbub.domain.permissions import Identity
from hubbub.domain.rules import HubConfiguration, HubSettings
from hubbub.domain.traces import context_of_request, with_context
from hubbub.engine.access.credentials import CredentialCheck
from hubbub.engine.access.refusal_log import RefusalLog
from hubbub.engine.access.registry import AccessRegistry
from hubbub.engine.access.throttle import Throttle
from hubbub.engine.access.tokens import Tokens
from hubbub.engine.counters import HubCounters
from hubbub.engine.delivery.fanout import Fanout
from hubbub.engine.delivery.feed_part import RoomFeeds
from hubbub.engine.directory import Directory
from hubbub.engine.hub import Hub, SessionState
from hubbub.engine.limits import EngineLimits
from hubbub.engine.outward.gate import OutgoingGate
from hubbub.engine.publishing import Publisher
from hubbub.engine.quotas import ClusterQuotas
from hubbub.engine.rooms import NodeHandler, Room, node_requests_of
from hubbub.engine.services.consent import Consent
from hubbub.engine.session_requests import by_type
from hubbub.engine.sessions.authentication import Authentication
from hubbub.engine.sessions.channel_tokens import ChannelTokens
from hubbub.engine.sessions.expiries import Expiries
from hubbub.engine.sessions.filtering import SessionFilters
from hubbub.engine.sessions.heartbeats import Heartbeats
from hubbub.engine.sessions.journal import Chronicle
from hubbub.engine.sessions.queries import Queries
from hubbub.engine.sessions.renewal import Renewal
from hubbub.engine.sessions.requests import SessionsOwnRequests
from hubbub.engine.sessions.restore import Restorer
from hubbub.engine.sessions.restore_keys import RestoreKeys
from hubbub.engine.sessions.session import Session
from hubbub.engine.sessions.subscriptions import Subscriptions
from hubbub.engine.unproven_hubs import UnprovenHubs
from hubbub.ports.authenticator import Authenticator
from hubbub.ports.bus import (
    AskWatches,
    Bus,
    Detach,
    HubChanged,
    MessagePublished,
    SessionTaken,
    Watch,
)
from hubbub.ports.clock import Clock
from hubbub.ports.connection import Connection
from hubbub.ports.journal import Journal
from hubbub.ports.storage import Store
from hubbub.tasks import TaskSet

F = TypeVar("F")

logger = logging.getLogger(__name__)

_CHANNELS_ENDED_IN_A_TURN = 64
"""Subscriptions, of sessions whose connections were lost together, that are ended in one turn of
the loop: each takes up to 20 us."""

RESTORE_FLUSH_SECONDS = 0.5


class Features(Protocol):
    """The node's features besides sessions and channels."""

    feeds: RoomFeeds

    def construct(self, node: Node) -> Iterable[object]:
        """Called when everything that features may need of the node is there, and yields one after
        the other: a feature may need those before it (`Node.feature`). The node calls those that
        are rooms."""


class Node:
    """Created once by the wiring; used on the event loop's thread."""

    def __init__(
        self,
        *,
        bus: Bus,
        store: Store,
        clock: Clock,
        directory: Directory,
        tokens: Tokens,
        access: AccessRegistry,
        authenticator: Authenticator,
        limits: EngineLimits,
        journal: Journal,
        outgoing: OutgoingGate,
        throttle: Throttle,
        fanout: Fanout,
        publisher: Publisher,
        consent: Consent,
        features: Features,
    ) -> None:
        self.bus = bus
        self.outgoing = outgoing
        self.clock = clock
        self.limits = limits
        self.directory = directory
        self.tokens = tokens
        self.access = access
        self.throttle = throttle
        self.credentials = CredentialCheck(tokens, self.throttle)
        self.refusals = RefusalLog(clock)
        self.journal = journal
        self.chronicle = Chronicle(journal, clock)
        self.fanout = fanout
        self.publisher = publisher
        self._consent = consent
        self._room_feeds = features.feeds
        self.restore_keys = RestoreKeys(store, clock, limits)
        self.tasks = TaskSet()
        expiries = Expiries(clock, limits)
        self.subscriptions = Subscriptions(
            bus, fanout, limits, clock, self.restore_keys, self.chronicle, access, self.tasks,
            ChannelTokens(self.credentials, expiries), features.feeds,
        )  # fmt: skip
        self.heartbeats = Heartbeats(clock, limits, self.subscriptions, expiries)
        self.queries = Queries(bus, limits, clock, self.subscriptions)
        self.filters = SessionFilters(self.restore_keys, self.queries)
        self.hubs: dict[str, Hub] = {}
        self.unproven = UnprovenHubs(
            limits.unproven_hubs, self.hubs, self._unload, directory.is_stored
        )
        self.quotas = ClusterQuotas(clock, directory.get, self.hubs)
        self.counters: dict[str, HubCounters] = {}
        """Counters of known hubs outlive their unloading; names that were only tried must not take
        memory."""
        self.renewal = Renewal(bus, self.hubs, self.tasks)
        self.session_count = 0
        self._lost: deque[SessionState] = deque()
        """Sessions whose connection was lost and that are still to be closed."""
        self.draining = False
        self._features: dict[type, object] = {}
        for each in features.construct(self):
            self._features[type(each)] = each
        self.rooms = tuple(each for each in self._features.values() if isinstance(each, Room))
        self.authentication = Authentication(
            tokens,
            self.credentials,
            self.throttle,
            authenticator,
            limits,
            self.subscriptions,
            self.restore_keys,
            self.heartbeats,
            self.rooms,
        )
        self.restorer = Restorer(
            bus,
            tokens,
            self.throttle,
            self.restore_keys,
            self.subscriptions,
            self.heartbeats,
            self.chronicle,
        )
        own = SessionsOwnRequests(
            self.subscriptions,
            self.authentication,
            self.restorer,
            self.queries,
            self.filters,
            self.close,
        )
        self.session_requests = by_type(
            request for room in (own, *self.rooms) for request in room.session_requests
        )

    def feature(self, kind: type[F]) -> F:
        """The node's only object of this class, for gateways, administration, and features that are
        constructed after it."""
        found = self._features[kind]
        assert isinstance(found, kind)
        return found

    def envelope_of(self, headers: Mapping[bytes, bytes]) -> Attributes | None:
        """The envelope of a message in the body of an HTTP request with these headers. Raises
        `InvalidAttribute`."""
        attributes = from_headers(headers)
        return (
            with_context(attributes, context_of_request(headers))
            if self.publisher.traced
            else attributes
        )

    # -- hubs -----------------------------------------------------------------------------------

    def hub(self, name: str, stranger: str | None = None) -> Hub:
        """The hub, loaded into memory if necessary. `stranger` is the address of a caller that is
        not authenticated yet. Raises `HubNotFound`, `InvalidName`, and `Overloaded` if strangers
        have created too many hubs."""
        hub = self.hubs.get(name)
        if hub is None:
            configuration = self.directory.get(name)
            if stranger is not None and name not in self.directory:
                self.unproven.admit(name, stranger, self.clock.monotonic())
            counters = self.counters.setdefault(name, HubCounters())
            hub = self.hubs[name] = Hub(
                configuration, counters, self.clock.monotonic(), self._consent.subscribe
            )
            self.quotas.tune(hub)
            if name not in self.directory:
                declared = ", ".join(map(repr, self.directory.names()[:10])) or "none"
                logger.warning(
                    "hub %r was created on first use: nobody declared it (declared: %s); if the "
                    "name is a typo, delete it with `hubbub hubs delete %s`",
                    name,
                    declared,
                    name,
                )
        return hub

    def note_about(self, hub: Hub) -> str | None:
        """A hint for callers of an open hub that was created on first use: its name may be a
        typo."""
        if hub.name in self.directory or not hub.configuration.settings.allow_anonymous:
            return None
        name = quote(hub.name)
        return (
            f"nobody declared the hub {name!r}: it was created on first use; if the name is a "
            "typo, delete it with `hubbub hubs delete`"
        )

    def do_later(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs work in the background until the node stops."""
        self.tasks.start(work)

    def visit(self, name: str, address: str) -> Hub:
        """The hub for a caller that is not authenticated yet. A hub that does not exist looks like
        one without anonymous access that accepts no token (`Hub.missing`). Raises `InvalidName` and
        `Overloaded`."""
        try:
            return self.hub(name, address)
        except HubNotFound as error:
            self.refusals.no_hub(name)
            configuration = HubConfiguration(name)
            return Hub(configuration, HubCounters(), self.clock.monotonic(), missing=error)

    def receive(self, hub: str, channel: str, event: FeedEvent) -> None:
        """Handles an event from the owner of a channel, for this node's subscribers."""
        known = self.hubs.get(hub)
        feed = known.feeds.get(channel) if known is not None else None
        if feed is not None:
            feed.receive(event)
        elif known is not None and known.patterns is not None and known.patterns.matching(channel):
            self.subscriptions.patterns.receive(known, channel, event)
        else:
            # The owner did not hear that nobody follows it here.
            self.bus.tell(Detach(hub, channel))

    def receive_message(self, hub: str, channel: str, message: Message, epoch: str) -> None:
        known = self.hubs.get(hub)
        feed = known.feeds.get(channel) if known is not None else None
        if feed is None or not feed.follow_up(message, epoch):
            self.receive(hub, channel, MessagePublished(message, epoch))

    @property
    def node_requests(self) -> Iterator[tuple[type[NodeRequest[Any]], NodeHandler]]:
        """The requests that this node handles for its sessions."""
        yield HubChanged, self._heed_change
        yield AskWatches, self._watches
        yield SessionTaken, self._replace_session
        yield from node_requests_of(self.rooms)

    @property
    def feed_events(self) -> list[type[FeedEvent]]:
        """The feed events of rooms, in addition to those of all channels."""
        return list(self._room_feeds.events)

    async def _heed_change(self, _: str, changed: HubChanged) -> None:
        if changed.channel is None:
            self.hub_changed(changed.hub)
        else:
            self.channel_changed(changed.hub, changed.channel)

    async def _watches(self, _: str, __: AskWatches) -> tuple[Watch, ...]:
        return tuple(self.subscriptions.patterns.watch.watches(self.hubs.values()))

    async def _replace_session(self, _: str, taken: SessionTaken) -> None:
        known = self.hubs.get(taken.hub)
        session = known.sessions.get(taken.session_id) if known is not None else None
        if session is not None:
            self.restorer.replace(session, taken.kept)

    def owners_changed(self, partitions: Collection[int]) -> None:
        self.renewal.owners_changed(partitions)
        self.subscriptions.patterns.watch.owners_changed(self.hubs.values())

    def hub_changed(self, hub: str) -> None:
        """Applies changed settings immediately, also to present subscribers of every kind."""
        known = self.hubs.get(hub)
        if known is not None:
            self._configure(known)
        self.access.review(hub)
        if hub in self.hubs:
            for feed in self.hubs[hub].feeds.values():
                feed.rules_changed()
            self.subscriptions.attendance.announce_members(self.hubs[hub])
            self.subscriptions.patterns.hub_changed(self.hubs[hub])
        for room in self.rooms:
            room.hub_changed(hub)

    def channel_changed(self, hub: str, channel: str) -> None:
        """Applies a decision of a channel's owner to all its readers."""
        known = self.hubs.get(hub)
        if known is not None:
            known.bind(self.directory.get(hub))
        self.access.review_channel(hub, channel)
        feed = known.feeds.get(channel) if known is not None else None
        if feed is not None:
            feed.rules_changed()
        if known is not None:
            self.subscriptions.patterns.channel_changed(known, channel)
        for room in self.rooms:
            room.channel_changed(hub, channel)

    def _configure(self, hub: Hub) -> None:
        try:
            hub.configure(self.directory.get(hub.name), self.clock.monotonic())
        except HUB_AWAY as error:
            self.drop_hub(hub.name, error)
        else:
            self.quotas.tune(hub)
            for session in hub.sessions.values():
                self.heartbeats.expect_authentication(session)

    def drop_hub(self, name: str, error: HubbubError) -> None:
        """Called when a hub was deleted: ends its sessions, which cannot be restored."""
        hub = self.hubs.pop(name, None)
        for session in list(hub.sessions.values()) if hub is not None else ():
            self.end(session, error)

    def end(self, session: SessionState, error: HubbubError) -> None:
        """Ends a session; it cannot be restored."""
        session.reason = error.code
        self.close(session, keep_state=False)
        session.connection.disconnect(error)

    # -- sessions -------------------------------------------------------------------------------

    def open(
        self, hub: Hub, connection: Connection, identity: Identity, address: str = ""
    ) -> Session:
        """Opens and greets a session. Raises `GoingAway` and `QuotaExceeded`."""
        if self.draining:
            raise GoingAway("the server is shutting down; connect again")
        quota = hub.configuration.settings.quotas.sessions
        if quota and len(hub.sessions) >= self.quotas.sessions(hub.name, quota):
            raise QuotaExceeded(f"hub {hub.name!r} already has {quota} sessions, its quota")
        session = Session(self, hub, connection, identity, address)
        hub.add_session(session)
        hub.counters.sessions_opened += 1
        self.session_count += 1
        self.heartbeats.add(session)
        if hub.missing is None:
            self.chronicle.session_opened(session)
            self.access.add(hub.name, session)
        session.send(self._greeting(session))
        return session

    def welcome(self, session: Session) -> None:
        """Applies the subscriptions of an identity that authenticated while connecting, before the
        session's first request."""
        if session.identity.authenticated:
            session.run(self.authentication.welcome(session))

    def close(self, session: SessionState, keep_state: bool = True) -> None:
        """Called when the connection is lost or about to close. Idempotent."""
        if session.closed:
            return
        self.restore_keys.closed(session, keep_state)
        session.closed = True
        session.cancel_requests()
        self.subscriptions.end_all(session)
        hub = session.hub
        self.access.remove(hub.name, session)
        if hub.remove_session(session) and hub.missing is None:
            self.chronicle.session_closed(session)
        hub.counters.sessions_closed += 1
        self.session_count -= 1
        hub.idle_since = self.clock.monotonic()
        self.heartbeats.remove(session)

    def close_soon(self, session: SessionState) -> None:
        """Called when a connection was lost, perhaps with many others: closes sessions with many
        channels over several turns of the loop. Data sent to the connection meanwhile is
        dropped."""
        if not self._lost and len(session.followed()) < _CHANNELS_ENDED_IN_A_TURN // 4:
            self.close(session)
            return
        if not self._lost:
            asyncio.get_running_loop().call_soon(self._close_lost)
        self._lost.append(session)

    def _close_lost(self, most: float = _CHANNELS_ENDED_IN_A_TURN) -> None:
        while self._lost and most > 0:
            session = self._lost.popleft()
            most -= 1 + len(session.followed())
            self.close(session)
        if self._lost:
            asyncio.get_running_loop().call_soon(self._close_lost)

    def _greeting(self, session: SessionState) -> SessionInfo:
        """Properties of a hub without anonymous access are disclosed only after authentication."""
        settings = session.hub.configuration.settings
        if not settings.allow_anonymous and not session.identity.authenticated:
            settings = HubSettings()
        return SessionInfo(
            hub_id=session.hub.name,
            session_id=session.id,
            hub_allow_anonymous=settings.allow_anonymous,
            hub_allow_user_channel=settings.user_channel,
            default_public=settings.default_public,
            authenticated=session.identity.authenticated,
            user_id=session.identity.user_id,
            ping_interval_seconds=int(self.limits.ping_interval_seconds),
            max_message_bytes=self.limits.message_bytes,
            expires_at=session.identity.expires_at,
            max_channels=self.limits.session_channels,
            messages_per_second=self.limits.session_messages_per_second,
        )

    # -- time -----------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Called every second: heartbeats, deadlines, expired identities, idle hubs."""
        now = self.clock.monotonic()
        self.heartbeats.sweep(now)
        for room in self.rooms:
            room.sweep()
        self._close_idle_hubs(now)

    def _close_idle_hubs(self, now: float) -> None:
        limit = now - self.limits.hub_idle_seconds
        for name, hub in list(self.hubs.items()):
            if not hub.sessions and not hub.feeds and hub.idle_since <= limit:
                self._unload(name)

    def _unload(self, name: str) -> None:
        del self.hubs[name]
        if name not in self.directory:
            self.counters.pop(name, None)

    # -- life -----------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Disconnects all sessions, with their state stored, and finishes work in progress."""
        self.draining = True
        for room in self.rooms:
            await room.stop()
        error = GoingAway("the server is shutting down; connect again")
        self._close_lost(most=inf)
        for hub in self.hubs.values():
            for session in list(hub.sessions.values()):
                session.connection.disconnect(error)
        self.heartbeats.disconnect_unauthenticated(error)
        await self.tasks.settle_so_far(seconds=2)
        await self.restore_keys.flush()
        for room in self.rooms:
            await room.drained()
