"""The engine without gateways: connections that remember what they were
told, a store that fails on command, and nodes that are connected by a bus."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from harness.clock import FakeClock
from harness.running_hub import open_hub
from harness.unreliable import CALM, Faults, UnreliableNetwork
from hubbub.cluster.local import NODE, LocalBus
from hubbub.cluster.remote import Patience, RemoteBus
from hubbub.cluster.transport import Transport
from hubbub.connectors.http2_out import Http2Out
from hubbub.connectors.http_out import HttpOut
from hubbub.connectors.services import ServiceConnector
from hubbub.domain.asking import FeedEvent
from hubbub.domain.errors import HubbubError, NotAuthenticated
from hubbub.domain.messages import JSON, Message
from hubbub.domain.names import PARTITIONS, partition_of
from hubbub.domain.notices import MessageDelivery, Notice, Subscribed
from hubbub.domain.permissions import ANONYMOUS, Identity
from hubbub.domain.requests import Publish, PublishItem, Request, Subscribe, SubscribeItem
from hubbub.domain.rules import AuthProvider, HubConfiguration
from hubbub.engine.access.registry import AccessRegistry
from hubbub.engine.access.revocations import Revocations
from hubbub.engine.access.throttle import CallerLimits, Throttle
from hubbub.engine.access.tokens import SigningKey, Tokens
from hubbub.engine.administration import NodeFacts, Survey
from hubbub.engine.channels.owner import ChannelOwner
from hubbub.engine.channels.parts import OwnerParts
from hubbub.engine.directory import Directory
from hubbub.engine.limits import EngineLimits
from hubbub.engine.node import Node
from hubbub.engine.outward.gate import OutgoingGate
from hubbub.engine.outward.limits import WebhookLimits
from hubbub.engine.push.limits import PushSettings
from hubbub.engine.rooms import NodeRequests
from hubbub.engine.services.calls import Services
from hubbub.engine.services.consent import Consent
from hubbub.engine.sessions.session import Session
from hubbub.engine.storing.hooks import StoringHooks
from hubbub.engine.topic_creation import TopicMaker
from hubbub.engine.topics.durable import DurableSubscriptions
from hubbub.engine.webhooks.driver import Driver
from hubbub.engine.webhooks.service import Webhooks
from hubbub.ports.bus import Bus, HubChanged, MessagePublished
from hubbub.ports.encoding import Encoder
from hubbub.ports.journal import NO_JOURNAL, Journal
from hubbub.ports.services import NO_STREAMS
from hubbub.ports.storage import Store
from hubbub.ports.storage.messages import Append
from hubbub.server.node import make_fanout, make_publisher
from hubbub.server.push import make_credentials, make_push
from hubbub.server.rooms import NodeRooms, owner_rooms
from hubbub.server.telemetry.process import process_usage
from hubbub.storage.sqlite.store import SqliteStore

N = TypeVar("N", bound=Notice)

ANSWER_SECONDS = 30.0
PATIENT = Patience(deadline_seconds=30, first_retry_seconds=0.01, longest_retry_seconds=0.05)


NO_LIMITS = CallerLimits(
    failed_credentials_per_minute=0,
    anonymous_per_second=0,
    client_per_second=0,
    service_per_second=0,
    connections_per_second=0,
)


class NoticeEncoder:
    """An encoding whose bytes are numbers of notices, so that tests can read them back."""

    prepare = None
    in_order = False

    def __init__(self) -> None:
        self._notices: list[Notice] = []

    def encode_message(self, message: Message, epoch: str, previous: int | None = None) -> bytes:
        return self.encode(MessageDelivery(message, previous_serial=previous))

    def encode(self, notice: Notice) -> bytes:
        self._notices.append(notice)
        return (len(self._notices) - 1).to_bytes(8, "big")

    def pack(self, units: Sequence[bytes]) -> bytes:
        return b"".join(units)

    def read(self, data: bytes) -> list[Notice]:
        return [
            self._notices[int.from_bytes(data[at : at + 8], "big")] for at in range(0, len(data), 8)
        ]


class FakeConnection:
    """Remembers everything that it was sent."""

    one_way = False
    technology = "test"
    rid = None
    behind = False
    buffered = 0
    full = False
    fd = -1

    def __init__(self, encoder: NoticeEncoder) -> None:
        self.encoder: Encoder = encoder
        self._read = encoder.read
        self.heard: list[Notice] = []
        self.reading = True
        self.error: HubbubError | None = None
        self.session: Session | None = None
        self._asked: list[Request] = []
        self._changed = asyncio.Event()

    def encoder_in(self, channel: str) -> Encoder:
        return self.encoder

    def send(self, data: bytes) -> None:
        if self.error is None:
            self.heard += self._read(data)
            self._changed.set()

    def block(self, data: bytes, sent: int) -> None:
        raise AssertionError("nothing was written to a descriptor")

    def lose(self) -> None:
        raise AssertionError("nothing was written to a descriptor")

    def disconnect(self, error: HubbubError) -> None:
        if self.error is None:
            self.error = error
            if self.session is not None:
                self.session.disconnected()
            self._changed.set()

    def close(self) -> None:
        if self.session is not None:
            self.session.disconnected()

    async def drain(self) -> None:
        pass

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True
        self.say()

    def say(self, *requests: Request) -> None:
        """The client asks; what comes behind a request that takes time waits."""
        self._asked = [*self._asked, *requests]
        if self.session is not None:
            if requests:
                self.session.hear()
            del self._asked[: self.session.receive(iter(self._asked), len(self._asked))]

    def all(self, kind: type[N]) -> list[N]:
        return [notice for notice in self.heard if isinstance(notice, kind)]

    def deliveries(self, channel: str) -> list[Message]:
        return [
            each.message for each in self.all(MessageDelivery) if each.message.channel == channel
        ]

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until what was heard makes the condition true."""
        async with asyncio.timeout(ANSWER_SECONDS):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def delivered(self, channel: str, count: int) -> None:
        """Wait until so many messages of the channel came."""
        await self.until(lambda: len(self.deliveries(channel)) >= count)

    async def next(self, kind: type[N], count: int = 1) -> N:
        """The notice of this kind with this number, counted from the beginning."""
        await self.until(lambda: len(self.all(kind)) >= count)
        return self.all(kind)[count - 1]


class NoProvider:
    async def authenticate(
        self, provider: AuthProvider, hub: str, session_id: str, credentials: bytes
    ) -> Identity:
        raise NotAuthenticated("no provider in this test")


class FaultyStore(SqliteStore):
    """The real store, whose appends can be held up or made to fail."""

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(path, **options)
        self.failing: HubbubError | None = None
        self.held: asyncio.Event | None = None
        """While set and not fired, appends wait before they begin."""
        self.delayed_answers: asyncio.Event | None = None
        """While set and not fired, appends are on disk, but their answer waits."""
        self.batches: list[list[Append]] = []

    async def append(self, appends: Sequence[Append]) -> list[Exception | None]:
        self.batches.append(list(appends))
        if self.held is not None:
            await self.held.wait()
        if self.failing is not None:
            raise self.failing
        answer = await super().append(appends)
        if self.delayed_answers is not None:
            await self.delayed_answers.wait()
        return answer


class EngineNode:
    """One node: its sessions, and the channels that it owns."""

    def __init__(
        self,
        name: str,
        bus: LocalBus | RemoteBus,
        store: Store,
        clock: FakeClock,
        webhooks: WebhookLimits | None = None,
        journal: Journal = NO_JOURNAL,
        **limits: Any,
    ) -> None:
        self.name = name
        self.bus: Bus = bus
        self.limits = EngineLimits(**limits)
        self.revocations = Revocations(store, clock)
        self.directory = Directory(store, bus, revocations=self.revocations)
        self.tokens = Tokens(
            session_keys=[SigningKey("s", b"s" * 32)],
            admin_keys=[SigningKey("a", b"a" * 32)],
            issuer="test",
            clock=clock,
            revocations=self.revocations,
        )
        access = AccessRegistry(self.directory.get, self.tokens)
        self.sender = HttpOut()
        webhooks = webhooks or WebhookLimits()
        outgoing = OutgoingGate(self.sender, webhooks)
        services = Services(ServiceConnector(outgoing), NO_STREAMS, clock, self.limits)
        consent, maker, hooks = Consent(services, clock), TopicMaker(self.directory), StoringHooks()
        self.node = Node(
            bus=bus,
            store=store,
            clock=clock,
            directory=self.directory,
            tokens=self.tokens,
            access=access,
            authenticator=NoProvider(),
            limits=self.limits,
            outgoing=outgoing,
            journal=journal,
            throttle=Throttle(clock, NO_LIMITS, 10),
            fanout=make_fanout(clock, journal),
            publisher=make_publisher(bus, clock, self.limits, maker, consent, hooks),
            consent=consent,
            features=NodeRooms(store, maker, services, consent, webhooks, hooks, None),
        )
        parts = OwnerParts(
            store,
            clock,
            self.directory.get,
            self.limits,
            self.node.quotas.channels,
            bus,
        )
        self.driver = Driver(
            parts,
            access=access,
            outgoing=outgoing,
            limits=webhooks,
            publish_fetched=lambda hub, *fetched: self.node.feature(Webhooks).publish_fetched(
                self.node.hub(hub), *fetched
            ),
            journal=journal,
        )
        credentials = make_credentials(self.node, store)
        survey = Survey(self.node, name, NodeFacts, process_usage)
        self.http2 = Http2Out()
        self.push = make_push(
            PushSettings(), self.node, parts.terms, store, survey, credentials, self.http2
        )
        self.owner = ChannelOwner(
            parts,
            (*owner_rooms(parts, access, journal), self.driver, self.push),
            journal,
            store.append,
        )
        self.subscriptions = self.owner.room(DurableSubscriptions)
        self.requests = NodeRequests(
            self.directory.node_requests.items(),
            self.owner.node_requests,
            self.node.node_requests,
            survey.node_requests.items(),
        )
        bus.connect(self.owner, self.node, self.requests, self.node.feed_events)
        self.push_credentials = credentials
        self.encoder = NoticeEncoder()

    def connect(self, hub: str = "acme", identity: Identity = ANONYMOUS) -> FakeConnection:
        connection = FakeConnection(self.encoder)
        self.adopt(connection, hub, identity)
        return connection

    def adopt(
        self, connection: FakeConnection, hub: str = "acme", identity: Identity = ANONYMOUS
    ) -> None:
        """Open a session for the connection."""
        connection.session = self.node.open(self.node.hub(hub), connection, identity)
        self.node.welcome(connection.session)

    async def subscribe(
        self, *channels: str, identity: Identity = ANONYMOUS, **position: Any
    ) -> FakeConnection:
        """A session that follows the channels."""
        connection = self.connect(identity=identity)
        await subscribe(connection, *channels, **position)
        return connection

    async def stop(self) -> None:
        await self.node.drain()
        await self.owner.stop_rooms()
        await self.owner.stop()
        await self.sender.close()
        await self.http2.close()


def receive(connection: FakeConnection, *requests: Request) -> None:
    connection.say(*requests)


async def subscribe(connection: FakeConnection, *channels: str, **position: Any) -> None:
    before = len(connection.all(Subscribed))
    wanted = tuple(SubscribeItem(channel, **position) for channel in channels)
    receive(connection, Subscribe(wanted, req_id=1))
    await connection.next(Subscribed, before + 1)


def publish(
    connection: FakeConnection, channel: str, *payloads: bytes, req_id: int | None = None, **f: bool
) -> None:
    items = tuple(
        PublishItem(channel, "e", payload, JSON, req_id=req_id, **f)  # type: ignore[arg-type]
        for payload in payloads
    )
    receive(connection, Publish(items))


class LongWayBus(LocalBus):
    """Without the short ways of one process: every message goes as it would between nodes."""

    def connect(self, *parts: Any) -> None:
        super().connect(*parts)
        self.lane = lambda hub, channel: None
        self.sink = None


class StaticOwners:
    """Partitions that never move: each node has every n-th."""

    def __init__(self, node: str, names: Sequence[str]) -> None:
        self._node = node
        self._names = names

    def owner_of(self, partition: int) -> str:
        return self._names[partition % len(self._names)]

    def serves(self, partition: int) -> bool:
        return self.owner_of(partition) == self._node

    def fenced(self, partition: int) -> None:
        """Does nothing: no other node takes anything over."""


class Cluster:
    """Nodes in one process that share a store and are connected by an unreliable network."""

    def __init__(
        self,
        path: Path,
        *,
        seed: int = 0,
        faults: Faults = CALM,
        names: Sequence[str] = ("east", "west"),
        hubs: Iterable[HubConfiguration] = (),
        patience: Patience = PATIENT,
        announce_seconds: float | None = 0.01,
        transport_of: Callable[[str], Awaitable[Transport]] | None = None,
        **limits: Any,
    ) -> None:
        """`transport_of` replaces the unreliable network by another one."""
        self._transport_of = transport_of
        self.store = FaultyStore(path / "hubbub.db")
        self.clock = FakeClock()
        self.network = UnreliableNetwork(seed, faults)
        self.names = list(names)
        self.patience = patience
        self._hubs = list(hubs) or [open_hub()]
        self._limits = limits
        self._announce_seconds = announce_seconds
        self._announcing: asyncio.TimerHandle | None = None
        self.nodes: dict[str, EngineNode] = {}

    async def __aenter__(self) -> Cluster:
        await self.store.open()
        for name in self.names:
            await self.start_node(name)
        await self.nodes[self.names[0]].directory.declare(self._hubs)
        for each in self.nodes.values():
            await each.directory.load()
        self._announce()
        return self

    async def start_node(self, name: str) -> EngineNode:
        """Start a node, or start it again as a new process would."""
        if self._transport_of is not None:
            transport = await self._transport_of(name)
        else:
            transport = self.network.transport(name)
        bus = RemoteBus(
            name,
            transport,
            owners=StaticOwners(name, self.names),
            nodes=lambda: self.names,
            patience=self.patience,
        )
        started = self.nodes[name] = EngineNode(name, bus, self.store, self.clock, **self._limits)
        owned = [p for p in range(PARTITIONS) if self.names[p % len(self.names)] == name]
        started.owner.start(await self.store.acquire_partitions(owned, name))
        await started.directory.load()
        return started

    def _announce(self) -> None:
        """Owners tell their heads again and again, as they do in production, only faster."""
        if self._announce_seconds is None:
            return
        for each in self.nodes.values():
            each.owner.announce_news()
        loop = asyncio.get_running_loop()
        self._announcing = loop.call_later(self._announce_seconds, self._announce)

    async def __aexit__(self, *_: object) -> None:
        if self._announcing is not None:
            self._announcing.cancel()
        self.network.faults = CALM
        for each in self.nodes.values():
            await each.stop()
        for each in self.nodes.values():
            assert isinstance(each.bus, RemoteBus)
            await each.bus.close()
        await self.store.close()

    def owner_of(self, hub: str, channel: str) -> str:
        return self.names[partition_of(hub, channel) % len(self.names)]

    def channel_of(self, owner: str, prefix: str = "news", hub: str = "acme") -> str:
        """A channel name that this node owns."""
        names = (f"{prefix}-{number}" for number in range(1000))
        return next(name for name in names if self.owner_of(hub, name) == owner)


class Alone:
    """A node on its own, on the local bus."""

    def __init__(
        self,
        path: Path,
        *,
        hubs: Iterable[HubConfiguration] = (),
        store: FaultyStore | None = None,
        bus: LocalBus | None = None,
        **limits: Any,
    ) -> None:
        self.store = store or FaultyStore(path / "hubbub.db")
        self.clock = FakeClock()
        self._hubs = list(hubs) or [open_hub()]
        self.node = EngineNode(NODE, bus or LocalBus(), self.store, self.clock, **limits)

    async def __aenter__(self) -> Alone:
        await self.store.open()
        await self.node.directory.declare(self._hubs)
        terms = await self.store.acquire_partitions(range(PARTITIONS), NODE)
        self.node.owner.start(terms)
        return self

    async def change(self, hub: HubConfiguration) -> None:
        """Applies other settings to the hub."""
        await self.node.directory.declare([hub])
        await self.node.directory.changed(hub.hub)

    async def __aexit__(self, *_: object) -> None:
        await self.node.stop()
        await self.store.close()


class RecordingSink:
    """A node that only notes down what owners tell it."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, FeedEvent]] = []
        self.changed_hubs: list[str] = []
        self.changed_partitions: set[int] = set()
        self._changed = asyncio.Event()

    def receive(self, hub: str, channel: str, event: FeedEvent) -> None:
        self.events.append((hub, channel, event))
        self._changed.set()

    def owners_changed(self, partitions: Collection[int]) -> None:
        self.changed_partitions.update(partitions)
        self._changed.set()

    def receive_message(self, hub: str, channel: str, message: Message, epoch: str) -> None:
        self.receive(hub, channel, MessagePublished(message, epoch))

    async def hub_changed(self, _: str, changed: HubChanged) -> None:
        self.changed_hubs.append(changed.hub)
        self._changed.set()

    def in_place_of(self, node: EngineNode) -> NodeRequests:
        """The requests to a node whose sessions are this sink."""
        return NodeRequests(
            node.directory.node_requests.items(),
            node.owner.node_requests,
            [(HubChanged, self.hub_changed)],
        )

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(ANSWER_SECONDS):
            while not condition():
                self._changed.clear()
                await self._changed.wait()
