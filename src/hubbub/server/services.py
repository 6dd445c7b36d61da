"""Connections between a hub and its services: HTTP always, NATS if configured."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from hubbub import __version__
from hubbub.connectors.auth_providers import AuthProviders
from hubbub.connectors.services import ServiceConnector
from hubbub.domain.services import StreamEvent
from hubbub.engine.administration import Administration
from hubbub.engine.outward.gate import OutgoingGate
from hubbub.ports.clock import Clock
from hubbub.ports.services import StreamSink
from hubbub.server.settings import Settings

if TYPE_CHECKING:
    from hubbub.cluster.nats_broker import NatsBroker

logger = logging.getLogger(__name__)

SERVICE = "hubbub"
"""The name of the nodes in NATS tools."""


class Programs:
    """The services of one process: call `open`, `serve`, and finally `stop_serving` and `close`."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        outgoing: OutgoingGate,
        journal: StreamSink,
        node_name: str,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._outgoing = outgoing
        self.broker = _make_broker(settings, node_name)
        self.streams = _Streams(journal)
        self._serve: Callable[[], Awaitable[None]] | None = None
        self.authenticator = AuthProviders(outgoing, clock, self.broker)
        self.caller = ServiceConnector(outgoing, self.broker, settings.broker.subject)

    @property
    def nats_connected(self) -> Callable[[], bool] | None:
        broker = self.broker
        return None if broker is None else lambda: broker.connected

    async def open(self) -> None:
        """Raises `Unavailable`."""
        if self.broker is None:
            return
        await self.broker.open()
        target = self._settings.streams.target
        if target == "jetstream" or (target == "auto" and await self.broker.has_log()):
            from hubbub.connectors.stream_nats import JetStreams

            seconds = self._settings.streams.confirm_timeout
            prefix = self._settings.broker.subject
            self.streams.sink = JetStreams(self.broker, self._outgoing, prefix, seconds)
        else:
            logger.info("streams are kept in the journal, not in JetStream")

    def prepare(self, administration: Administration) -> None:
        """Creates the handler for services' requests over NATS, if enabled. It is slow to create,
        and others wait for this node once it serves."""
        if self.broker is None or not self._settings.admin.nats:
            return
        from hubbub.gateways.admin.nats_publishing import NatsPublisher
        from hubbub.gateways.admin.over_nats import AdminOverNats
        from hubbub.gateways.admin.table import ROUTES, make_application
        from hubbub.gateways.micro import MicroService

        door = AdminOverNats(
            make_application(administration),
            NatsPublisher(administration),
            ROUTES,
            self._settings.broker.subject,
            self._settings.admin.request_timeout,
        )
        micro = MicroService(
            SERVICE,
            secrets.token_hex(11),
            __version__,
            "A message hub: publish, and administer hubs",
            door.endpoints,
            door.about,
            self._clock,
        )
        self._serve = partial(door.start, self.broker, micro)

    async def serve(self) -> None:
        """Starts to accept requests."""
        if self._serve is not None:
            await self._serve()

    async def stop_serving(self) -> None:
        if self.broker is not None:
            await self.broker.stop_serving()

    async def close(self) -> None:
        if self.broker is not None:
            await self.broker.close()


class _Streams:
    """Delegates to the sink chosen once the broker's features are known."""

    def __init__(self, sink: StreamSink) -> None:
        self.sink = sink

    async def submit(self, event: StreamEvent) -> None:
        await self.sink.submit(event)


def _make_broker(settings: Settings, node_name: str) -> NatsBroker | None:
    """A connection separate from the cluster's: a large response must not delay a heartbeat. NATS
    is imported only if used."""
    broker, streams = settings.broker, settings.streams
    if not broker.servers:
        return None
    from hubbub.cluster.nats_broker import LogOptions, NatsBroker
    from hubbub.cluster.nats_connection import NatsConnection

    log = LogOptions(
        name=f"{broker.subject.replace('.', '_')}_streams",
        subjects=(f"{broker.subject}.streams.>",),
        replicas=streams.replicas,
        max_age_seconds=streams.max_age,
        max_bytes=streams.max_bytes,
    )
    name = f"hubbub-services/{broker.subject}/{node_name}"
    return NatsBroker(NatsConnection(broker, name), log)
