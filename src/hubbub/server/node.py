"""Builds the node of a process."""

from __future__ import annotations

from hubbub.engine.delivery.fanout import Fanout
from hubbub.engine.delivery.tally import Deliveries
from hubbub.engine.limits import EngineLimits
from hubbub.engine.node import Node
from hubbub.engine.publishing import Publisher
from hubbub.engine.services.calls import Services
from hubbub.engine.services.consent import Consent, ConsentQueue
from hubbub.engine.storing.hooks import StoringHooks
from hubbub.engine.topic_creation import TopicMaker
from hubbub.engine.tracing.fanout import TracedFanout, TracedNode
from hubbub.engine.tracing.publishing import TracedPublisher
from hubbub.gateways.outlet import transmit
from hubbub.ports.bus import Bus
from hubbub.ports.clock import Clock
from hubbub.ports.journal import Journal
from hubbub.ports.plugins import Plugins
from hubbub.ports.spans import Spans
from hubbub.server.access import HubAccess
from hubbub.server.foundation import Foundation
from hubbub.server.outgoing import OutgoingConnections
from hubbub.server.rooms import NodeRooms
from hubbub.server.services import Programs


def make_node(
    base: Foundation,
    access: HubAccess,
    outgoing: OutgoingConnections,
    programs: Programs,
    hooks: StoringHooks,
    plugins: Plugins | None,
) -> Node:
    bus, clock, limits, spans = (
        base.bus,
        base.clock,
        base.limits,
        base.spans,
    )
    services = Services(programs.caller, programs.streams, clock, limits)
    consent = Consent(services, clock)
    maker = TopicMaker(access.directory)
    kind = Node if spans is None else TracedNode
    return kind(
        bus=bus,
        store=base.store,
        clock=clock,
        directory=access.directory,
        tokens=access.tokens,
        access=access.registry,
        authenticator=programs.authenticator,
        limits=limits,
        journal=base.journal,
        outgoing=outgoing.gate,
        throttle=access.throttle,
        fanout=make_fanout(clock, base.journal, spans),
        publisher=make_publisher(bus, clock, limits, maker, consent, hooks, spans),
        consent=consent,
        features=NodeRooms(base.store, maker, services, consent, outgoing.limits, hooks, plugins),
    )


def make_fanout(clock: Clock, journal: Journal, spans: Spans | None = None) -> Fanout:
    """Without `spans` nothing is traced."""
    deliveries = Deliveries(journal, clock) if journal.enabled else None
    if spans is None:
        return Fanout(transmit, clock, deliveries)
    return TracedFanout(spans, transmit, clock, deliveries)


def make_publisher(
    bus: Bus,
    clock: Clock,
    limits: EngineLimits,
    maker: TopicMaker,
    consent: Consent,
    hooks: StoringHooks,
    spans: Spans | None = None,
) -> Publisher:
    """Without `spans` nothing is traced."""
    queue = ConsentQueue(consent)
    if spans is None:
        return Publisher(bus, clock, limits, maker, queue, hooks)
    return TracedPublisher(spans, bus, clock, limits, maker, queue, hooks)
