"""A node: everything that serves the sessions connected to this process.

The gateways open sessions here and hand requests to them. The node keeps the hubs in memory, looks
after heartbeats and time limits, and applies changed settings.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Collection, Coroutine, Mapping
from math import inf
from typing import Any
from urllib.parse import quote

from hubbub.domain.envelope_headers import from_headers
from hubbub.domain.errors import (
    HUB_AWAY,
    GoingAway,
    HubbubError,
    HubNotFound,
    QuotaExceeded,
)
from hubbub.domain.messages import Attributes
from hubbub.domain.notices import SessionInfo
from hubbub.domain.permissions import Identity
from hubbub.domain.rules import HubConfiguration, HubSettings
from hubbub.domain.traces import context_of_request, with_context
from hubbub.engine.access.credentials import Credentials
from hubbub.engine.access.registry import AccessRegistry
from hubbub.engine.access.throttle import Throttle
from hubbub.engine.access.tokens import Tokens
from hubbub.engine.commands.routing import ClientRouter
from hubbub.engine.commands.service import Commands
from hubbub.engine.commands.user_subscriptions import UserSubscriptions
from hubbub.engine.communication.service import Communication
from hubbub.engine.communication.subscriptions import PeerSubscriptions
from hubbub.engine.counters import HubCounters
from hubbub.engine.delivery.fanout import Fanout
from hubbub.engine.delivery.renewal import Renewal
from hubbub.engine.delivery.tally import Deliveries
from hubbub.engine.directory import Directory
from hubbub.engine.documents.service import Documents
from hubbub.engine.hub import Hub, SessionState
from hubbub.engine.limits import EngineLimits
from hubbub.engine.notifications.service import Notifications
from hubbub.engine.outgoing import OutgoingGate
from hubbub.engine.publishing import Publisher
from hubbub.engine.push.devices import Devices
from hubbub.engine.push.followings import Followings
from hubbub.engine.quotas import ClusterQuotas
from hubbub.engine.services.calls import Services
from hubbub.engine.services.consent import Consent, ConsentQueue
from hubbub.engine.sessions.authentication import Authentication
from hubbub.engine.sessions.channel_tokens import ChannelTokens
from hubbub.engine.sessions.document_requests import DocumentRequests
from hubbub.engine.sessions.expiries import Expiries
from hubbub.engine.sessions.filtering import SessionFilters
from hubbub.engine.sessions.heartbeats import Heartbeats
from hubbub.engine.sessions.journal import Chronicle
from hubbub.engine.sessions.notification_requests import NotificationRequests
from hubbub.engine.sessions.queries import Queries
from hubbub.engine.sessions.restore import Restorer
from hubbub.engine.sessions.restore_keys import RestoreKeys
from hubbub.engine.sessions.session import Capabilities, Session
from hubbub.engine.sessions.subscriptions import Subscriptions
from hubbub.engine.topics.creation import TopicMaker
from hubbub.engine.topics.service import Topics
from hubbub.engine.tracing.fanout import TracedFanout
from hubbub.engine.tracing.publishing import TracedPublisher
from hubbub.engine.webhooks.limits import WebhookLimits
from hubbub.engine.webhooks.service import Webhooks
from hubbub.ports.authenticator import Authenticator
from hubbub.ports.bus import Bus, FeedEvent, Watch
from hubbub.ports.clock import Clock
from hubbub.ports.connection import Connection, Transmitter
from hubbub.ports.journal import Journal
from hubbub.ports.services import ServiceCaller, StreamSink
from hubbub.ports.spans import Spans
from hubbub.ports.storage import Store
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

_CHANNELS_ENDED_IN_A_TURN = 64
"""Of sessions whose connections were lost together: ending a subscription takes up to 20 us."""

RESTORE_FLUSH_SECONDS = 0.5


class Node:
    """Built once by the wiring; lives on the event loop's thread."""

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
        transmit: Transmitter,
        limits: EngineLimits,
        caller: ServiceCaller,
        streams: StreamSink,
        journal: Journal,
        webhooks: WebhookLimits,
        outgoing: OutgoingGate,
        throttle: Throttle,
        spans: Spans | None = None,
    ) -> None:
        """Without `spans` nothing is traced."""
        self.bus = bus
        self.outgoing = outgoing
        self.clock = clock
        self.limits = limits
        self.directory = directory
        self.tokens = tokens
        self.access = access
        self.throttle = throttle
        self.credentials = Credentials(tokens, self.throttle)
        self.journal = journal
        self.chronicle = Chronicle(journal, clock)
        deliveries = Deliveries(journal, clock) if journal.enabled else None
        maker = TopicMaker(directory)
        self.traced = spans is not None
        self.fanout: Fanout
        self.publisher: Publisher
        if spans is None:
            self.fanout = Fanout(transmit, clock, deliveries)
            self.publisher = Publisher(bus, clock, limits, maker)
        else:
            self.fanout = fanout = TracedFanout(spans, transmit, clock, deliveries)
            self.publisher = TracedPublisher(spans, bus, clock, limits, maker)
            self.receive = fanout.traced(self.receive)  # type: ignore[assignment, method-assign]
        self.topics = Topics(bus, store, clock, self.publisher, maker, access)
        self.documents = Documents(bus, self.publisher)
        self.webhooks = Webhooks(
            bus, store, clock, self.topics, maker, directory, webhooks, outgoing
        )
        self.communication = Communication(bus, store)
        self.peer_subscriptions = PeerSubscriptions(store, self.webhooks, maker, clock)
        self.notifications = Notifications(bus, clock, limits, access, self.publisher)
        self.devices = Devices(store, tokens)
        self.followings = Followings(store, access, clock)
        self.restore_keys = RestoreKeys(store, clock, limits)
        self._tasks = TaskSet()
        expiries = Expiries(clock, limits)
        self.subscriptions = Subscriptions(
            bus, self.fanout, limits, clock, self.restore_keys, self.chronicle, access, self._tasks,
            ChannelTokens(self.credentials, expiries),
        )  # fmt: skip
        self.user_subscriptions = UserSubscriptions(store, self.subscriptions, self._tasks)
        self.heartbeats = Heartbeats(clock, limits, self.subscriptions, expiries)
        self.queries = Queries(bus, limits, clock, self.subscriptions)
        self.filters = SessionFilters(self.restore_keys, self.queries)
        self.services = Services(caller, streams, clock, limits)
        self.consent = Consent(self.services, clock)
        self.publisher.consents = ConsentQueue(self.consent)
        self.commands = Commands(
            store=store,
            bus=bus,
            clock=clock,
            directory=directory,
            publisher=self.publisher,
            filters=self.filters,
            limits=limits,
        )
        self.authentication = Authentication(
            tokens,
            self.credentials,
            self.throttle,
            authenticator,
            limits,
            self.subscriptions,
            self.restore_keys,
            self.heartbeats,
            self.followings,
            self.user_subscriptions,
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
        self.hubs: dict[str, Hub] = {}
        self.commands.extensions.router = ClientRouter(bus, clock, self.hubs)
        self.quotas = ClusterQuotas(clock, directory.get, self.hubs)
        self.counters: dict[str, HubCounters] = {}
        """Those of known hubs outlive them; a name that was only tried must not cost memory."""
        self.renewal = Renewal(bus, self.hubs, self._tasks)
        self.session_count = 0
        self._lost: deque[SessionState] = deque()
        """Sessions whose connection is lost, to be closed."""
        self.draining = False
        self._capabilities = Capabilities(
            clock=clock,
            limits=limits,
            tokens=tokens,
            throttle=self.throttle,
            publisher=self.publisher,
            subscriptions=self.subscriptions,
            authentication=self.authentication,
            restore_keys=self.restore_keys,
            restorer=self.restorer,
            queries=self.queries,
            filters=self.filters,
            topics=self.topics,
            notifications=NotificationRequests(self.notifications),
            document_requests=DocumentRequests(self.documents),
            services=self.services,
            commands=self.commands,
            chronicle=self.chronicle,
            tasks=self._tasks,
            close=self.close,
            close_soon=self.close_soon,
            end=self.end,
        )

    def envelope_of(self, headers: Mapping[bytes, bytes]) -> Attributes | None:
        """The envelope of a message whose payload is the body of an HTTP request with these
        headers. Raises `InvalidAttribute`."""
        attributes = from_headers(headers)
        return with_context(attributes, context_of_request(headers)) if self.traced else attributes

    # -- hubs -----------------------------------------------------------------------------------

    def hub(self, name: str) -> Hub:
        """The hub, brought into memory if need be. Raises `HubNotFound`, `InvalidName`."""
        hub = self.hubs.get(name)
        if hub is None:
            configuration = self.directory.get(name)
            counters = self.counters.setdefault(name, HubCounters())
            hub = self.hubs[name] = Hub(
                configuration, counters, self.clock.monotonic(), self.consent.subscribe
            )
            self.quotas.tune(hub)
            if name not in self.directory:
                declared = ", ".join(map(repr, self.directory.names()[:10])) or "none"
                logger.warning(
                    "hub %r came into being by use: nobody declared it (declared are %s); if that "
                    "was a slip of the pen, `hubbub hubs delete` removes what was stored in it",
                    name,
                    declared,
                )
        return hub

    def note_about(self, hub: Hub) -> str | None:
        """What callers at the door of an open hub are told that came into being by use: its name
        may be a slip of the pen."""
        if hub.name in self.directory or not hub.configuration.settings.allow_anonymous:
            return None
        return f"nobody declared the hub {quote(hub.name)!r}: it came into being by use"

    def do_later(self, work: Coroutine[Any, Any, None]) -> None:
        """Beside what the caller does, until the node stops."""
        self._tasks.start(work)

    def visit(self, name: str) -> Hub:
        """The hub, for a caller who has not proven anything yet. A hub that does not exist looks
        like one that wants a token: in its place comes one without anonymous access that no token
        opens (`Hub.missing`). Raises `InvalidName`."""
        try:
            return self.hub(name)
        except HubNotFound as error:
            configuration = HubConfiguration(name)
            return Hub(configuration, HubCounters(), self.clock.monotonic(), missing=error)

    def receive(self, hub: str, channel: str, event: FeedEvent) -> None:
        """From the owner of a channel, for this node's subscribers."""
        known = self.hubs.get(hub)
        feed = known.feeds.get(channel) if known is not None else None
        if feed is not None:
            feed.receive(event)
        elif known is not None and known.patterns is not None and known.patterns.matching(channel):
            self.subscriptions.patterns.receive(known, channel, event)
        else:
            self.bus.detach(hub, channel)  # the owner did not hear that nobody follows it here

    def watches(self) -> list[Watch]:
        return self.subscriptions.patterns.watch.watches(self.hubs.values())

    def session_replaced(self, hub: str, session_id: str, kept: Collection[str]) -> None:
        known = self.hubs.get(hub)
        session = known.sessions.get(session_id) if known is not None else None
        if session is not None:
            self.restorer.replace(session, kept)

    def owners_changed(self, partitions: Collection[int]) -> None:
        self.renewal.owners_changed(partitions)
        self.subscriptions.patterns.watch.owners_changed(self.hubs.values())

    def hub_changed(self, hub: str) -> None:
        """Apply changed settings at once, also to who is already here, however they get their
        messages."""
        known = self.hubs.get(hub)
        if known is not None:
            self._configure(known)
        self.consent.forget(hub)
        self.access.review(hub)
        if hub in self.hubs:
            for feed in self.hubs[hub].feeds.values():
                feed.rules_changed()
            self.subscriptions.attendance.announce_members(self.hubs[hub])
            self.subscriptions.patterns.hub_changed(self.hubs[hub])

    def channel_changed(self, hub: str, channel: str) -> None:
        """Apply what the owner of a channel decided about it, however its messages are read."""
        known = self.hubs.get(hub)
        if known is not None:
            known.bind(self.directory.get(hub))
        self.access.review_channel(hub, channel)
        feed = known.feeds.get(channel) if known is not None else None
        if feed is not None:
            feed.rules_changed()
        if known is not None:
            self.user_subscriptions.channel_changed(known, channel)
            self.subscriptions.patterns.channel_changed(known, channel)

    async def user_follows(self, hub: str, user_id: str, channel: str, follows: bool) -> None:
        known = self.hubs.get(hub)
        if known is not None:
            await self.user_subscriptions.changed(known, user_id, channel, follows)

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
        """The hub is gone: so are its sessions, for good."""
        hub = self.hubs.pop(name, None)
        for session in list(hub.sessions.values()) if hub is not None else ():
            self.end(session, error)

    def end(self, session: SessionState, error: HubbubError) -> None:
        """Cut a session off, with no way back by a restore key."""
        session.reason = error.code
        self.close(session, keep_state=False)
        session.connection.disconnect(error)

    # -- sessions -------------------------------------------------------------------------------

    def open(
        self, hub: Hub, connection: Connection, identity: Identity, address: str = ""
    ) -> Session:
        """A new session, greeted. Raises `GoingAway` and `QuotaExceeded`."""
        if self.draining:
            raise GoingAway("the server is shutting down; connect again")
        quota = hub.configuration.settings.quotas.sessions
        if quota and len(hub.sessions) >= self.quotas.sessions(hub.name, quota):
            raise QuotaExceeded(f"hub {hub.name!r} already has {quota} sessions, its quota")
        session = Session(self._capabilities, hub, connection, identity, address)
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
        """What an identity that was proven at connect brings with it, before anything else that
        the session asks for."""
        if session.identity.authenticated:
            session.run(self.authentication.welcome(session))

    def close(self, session: SessionState, keep_state: bool = True) -> None:
        """The connection is gone or about to be. Idempotent."""
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
        """Its connection is lost, perhaps with many others: sessions with many channels are closed
        in turns of the loop. Until then nothing that is sent to the connection goes anywhere."""
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
        """What a hub without anonymous access is like is told after authentication only."""
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
        self._close_idle_hubs(now)

    def _close_idle_hubs(self, now: float) -> None:
        limit = now - self.limits.hub_idle_seconds
        for name, hub in list(self.hubs.items()):
            if not hub.sessions and not hub.feeds and hub.idle_since <= limit:
                del self.hubs[name]
                if name not in self.directory.names():
                    self.counters.pop(name, None)

    # -- life -----------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Send everyone away, with their state kept, and finish what is under way."""
        self.draining = True
        self.topics.draining = True
        error = GoingAway("the server is shutting down; connect again")
        self._close_lost(most=inf)
        for hub in self.hubs.values():
            for session in list(hub.sessions.values()):
                session.connection.disconnect(error)
        self.heartbeats.disconnect_unauthenticated(error)
        await self._tasks.settle_so_far(seconds=2)
        await self.restore_keys.flush()
