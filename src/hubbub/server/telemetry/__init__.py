"""Metrics, health and readiness, as pages of the listener."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

from hubbub import __version__
from hubbub.engine.channels.owner import ChannelOwner
from hubbub.engine.counters import HubCounters, TopicCounters
from hubbub.engine.node import Node
from hubbub.engine.topics.lags import HubLag, LagSurvey
from hubbub.engine.webhooks.driver import Driver
from hubbub.gateways.http import Request
from hubbub.journal.writer import JournalWriter
from hubbub.server.telemetry.access import MetricsAccess
from hubbub.server.telemetry.cluster import ClusterCollector, ClusterFigures
from hubbub.server.telemetry.webhooks import WebhookCollector, histogram

_COUNTERS: tuple[tuple[str, str, Callable[[HubCounters], float]], ...] = (
    ("hubbub_messages_in", "Messages taken from publishers.", lambda c: c.messages_in),
    ("hubbub_bytes_in", "Payload bytes taken from publishers.", lambda c: c.bytes_in),
    ("hubbub_messages_out", "Messages delivered to subscribers.", lambda c: c.messages_out),
    ("hubbub_bytes_out", "Bytes sent to subscribers.", lambda c: c.bytes_out),
    ("hubbub_messages_refused", "Requests that were refused.", lambda c: c.messages_refused),
    (
        "hubbub_messages_expired",
        "Messages not delivered live since their time to live was over.",
        lambda c: c.messages_expired,
    ),
    ("hubbub_sessions_opened", "Sessions opened.", lambda c: c.sessions_opened),
    ("hubbub_sessions_closed", "Sessions closed.", lambda c: c.sessions_closed),
    (
        "hubbub_slow_consumers",
        "Sessions cut off for reading too slowly.",
        lambda c: c.slow_consumers,
    ),
    ("hubbub_puts", "Messages put to topics.", lambda c: c.puts),
    ("hubbub_put_duplicates", "Puts that were there already.", lambda c: c.duplicates),
    ("hubbub_calls", "Calls of services.", lambda c: c.calls),
    ("hubbub_calls_failed", "Those that no service answered well.", lambda c: c.calls_failed),
    ("hubbub_stream_events", "Events handed to streams.", lambda c: c.stream_events),
    (
        "hubbub_stream_events_failed",
        "Those that no stream confirmed.",
        lambda c: c.stream_events_failed,
    ),
)
_TOPIC_COUNTERS: tuple[tuple[str, str, Callable[[TopicCounters], float]], ...] = (
    (
        "hubbub_topic_gets",
        "Messages that durable subscriptions handed out.",
        lambda c: c.handed_out,
    ),
    ("hubbub_topic_redeliveries", "Those that were not the first time.", lambda c: c.redelivered),
    ("hubbub_topic_acknowledgements", "Messages acknowledged.", lambda c: c.acknowledged),
    ("hubbub_topic_dead_letters", "Messages put to dead letters.", lambda c: c.dead_letters),
    (
        "hubbub_topic_expired",
        "Messages whose time to live was over before a durable subscription or webhook got them.",
        lambda c: c.expired,
    ),
    (
        "hubbub_topic_missed",
        "Messages deleted before a durable subscription got them.",
        lambda c: c.missed,
    ),
    ("hubbub_reclaimed_messages", "Messages deleted by retention.", lambda c: c.reclaimed),
    ("hubbub_reclaimed_bytes", "Their payload bytes.", lambda c: c.reclaimed_bytes),
)
_LAGS: tuple[tuple[str, str, Callable[[HubLag], float]], ...] = (
    ("hubbub_durable_subscriptions", "Durable subscriptions.", lambda lag: lag.subscriptions),
    (
        "hubbub_topic_lag",
        "Messages that durable subscriptions have not acknowledged, summed over them.",
        lambda lag: lag.total,
    ),
    (
        "hubbub_topic_lag_largest",
        "Messages that the durable subscription farthest behind has not acknowledged.",
        lambda lag: lag.largest,
    ),
)


class TopicCollector:
    """Reads what is known of durable subscriptions. Series of single ones are few, since there may
    be any number of them."""

    def __init__(self, node: Node, owner: ChannelOwner, lags: LagSurvey) -> None:
        self._node = node
        self._owner = owner
        self._lags = lags

    def collect(self) -> Iterable[Metric]:
        hubs = sorted({*self._node.counters, *self._owner.counters, *self._lags.hubs})
        nothing, no_lag = TopicCounters(), HubLag()
        for name, text, read in _TOPIC_COUNTERS:
            counter = CounterMetricFamily(name, text, labels=["hub"])
            for hub in hubs:
                counter.add_metric([hub], read(self._owner.counters.get(hub, nothing)))
            yield counter
        for name, text, look in _LAGS:
            gauge = GaugeMetricFamily(name, text, labels=["hub"])
            for hub in hubs:
                gauge.add_metric([hub], look(self._lags.hubs.get(hub, no_lag)))
            yield gauge
        waiting = GaugeMetricFamily(
            "hubbub_waiting_consumers", "Consumers that wait for a message.", labels=["hub"]
        )
        counts = self._owner.durable.waiting()
        for hub in hubs:
            waiting.add_metric([hub], counts.get(hub, 0))
        yield waiting
        yield self._single()

    def _single(self) -> Metric:
        family = GaugeMetricFamily(
            "hubbub_subscription_lag",
            "Messages that a durable subscription has not acknowledged; only those farthest "
            "behind (channel.lagSeries).",
            labels=["hub", "channel", "owner", "name"],
        )
        for lag in self._lags.farthest:
            key = lag.key
            family.add_metric([key.hub, key.channel, key.owner, key.name], lag.messages)
        return family


class HubCollector:
    """Reads the counters of all hubs when Prometheus asks."""

    def __init__(
        self,
        node: Node,
        owner: ChannelOwner,
        http_connections: Callable[[], int],
        journal: JournalWriter | None,
        nats: Callable[[], bool] | None,
    ) -> None:
        self._nats = nats
        self._node = node
        self._owner = owner
        self._http_connections = http_connections
        self._journal = journal

    def collect(self) -> Iterable[Metric]:
        hubs = self._node.counters
        for name, text, read in _COUNTERS:
            family = CounterMetricFamily(name, text, labels=["hub"])
            for hub, counters in hubs.items():
                family.add_metric([hub], read(counters))
            yield family
        yield self._gauge(
            "hubbub_sessions", "Open sessions.", lambda c: c.sessions_opened - c.sessions_closed
        )
        yield self._gauge("hubbub_subscriptions", "Subscriptions.", lambda c: c.subscriptions)
        channels = GaugeMetricFamily("hubbub_channels", "Channels in use.", labels=["hub"])
        for hub in hubs:
            channels.add_metric([hub], self._owner.channels.count(hub))
        yield channels
        yield GaugeMetricFamily("hubbub_hubs", "Hubs in memory.", value=len(self._node.hubs))
        yield GaugeMetricFamily(
            "hubbub_http_connections", "Open HTTP connections.", value=self._http_connections()
        )
        yield histogram(
            "hubbub_publish_seconds",
            "Time to take in one publish request.",
            {hub: counters.publishes for hub, counters in hubs.items()},
        )
        if self._nats is not None:
            yield GaugeMetricFamily(
                "hubbub_nats_connected", "Whether NATS is there for services.", value=self._nats()
            )
        if self._journal is not None:
            yield from _journal_metrics(self._journal)

    def _gauge(self, name: str, text: str, read: Callable[[HubCounters], float]) -> Metric:
        family = GaugeMetricFamily(name, text, labels=["hub"])
        for hub, counters in self._node.counters.items():
            family.add_metric([hub], read(counters))
        return family


def _journal_metrics(journal: JournalWriter) -> Iterable[Metric]:
    thread = journal.thread
    for name, text, value in (
        ("events", "Events in the journal, on disk.", journal.events),
        ("bytes", "Bytes written to the journal.", thread.written_bytes),
        ("lost", "Events that the journal had to drop.", journal.lost),
    ):
        yield CounterMetricFamily(f"hubbub_journal_{name}", text, value=value)
    for name, text, value in (
        ("open_segments", "Segments of the journal being written.", thread.open_segments),
        ("closed_segments", "Segments that waited to be sealed.", thread.closed_segments),
        ("buffered_bytes", "Bytes that wait for the disk.", journal.buffered_bytes),
        ("channels_behind", "Channels whose messages wait.", journal.exporter.behind),
    ):
        yield GaugeMetricFamily(f"hubbub_journal_{name}", text, value=value)


class Telemetry:
    """The pages /metrics, /healthz and /readyz."""

    def __init__(
        self,
        node: Node,
        owner: ChannelOwner,
        lags: LagSurvey,
        ready: Callable[[], str | None],
        http_connections: Callable[[], int],
        driver: Driver,
        access: MetricsAccess,
        journal: JournalWriter | None = None,
        cluster: Callable[[], ClusterFigures] = ClusterFigures,
        nats: Callable[[], bool] | None = None,
    ) -> None:
        """`ready` tells what is missing, or None; `nats` whether services can be reached there."""
        self._ready = ready
        self._access = access
        self._registry = CollectorRegistry()
        self._registry.register(HubCollector(node, owner, http_connections, journal, nats))
        self._registry.register(TopicCollector(node, owner, lags))
        self._registry.register(WebhookCollector(node, driver))
        self._registry.register(ClusterCollector(cluster))
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def metrics(self, request: Request) -> tuple[int, str, bytes]:
        """Raises what `MetricsAccess.check` raises."""
        self._access.check(request)
        return 200, "text/plain; version=0.0.4; charset=utf-8", generate_latest(self._registry)

    def health(self, _: Request) -> tuple[int, str, bytes]:
        """The process lives and its loop turns."""
        return 200, "application/json", _json({"status": "ok", "version": __version__})

    def readiness(self, _: Request) -> tuple[int, str, bytes]:
        """It is sensible to send clients here."""
        missing = self._ready()
        if missing is None:
            return 200, "application/json", _json({"status": "ready"})
        return 503, "application/json", _json({"status": "not ready", "reason": missing})


def _json(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"
