"""Metrics, health and readiness, as pages of the listener."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from hubbub import __version__
from hubbub.domain.asking import NodeRequest
from hubbub.engine.administration.survey import Survey
from hubbub.engine.channels.owner import ChannelOwner
from hubbub.engine.node import Node
from hubbub.engine.rooms import NodeHandler
from hubbub.engine.topics.lags import HubLag, LagSurvey
from hubbub.gateways.http import ReceivedRequest
from hubbub.journal.writer import JournalWriter
from hubbub.server.telemetry.access import MetricsAccess
from hubbub.server.telemetry.families import Figure, by_hub, filled, histogram
from hubbub.server.telemetry.process import LoopLag
from hubbub.server.telemetry.workers import WorkerMetrics

Page = tuple[int, str, bytes]
"""Status, content type and body."""
_METRICS = "text/plain; version=0.0.4; charset=utf-8"
_COUNTERS: tuple[Figure, ...] = (
    ("messages_in", "messages_in", "Messages taken from publishers."),
    ("bytes_in", "bytes_in", "Payload bytes taken from publishers."),
    ("messages_out", "messages_out", "Messages delivered to subscribers."),
    ("bytes_out", "bytes_out", "Bytes sent to subscribers."),
    ("messages_refused", "messages_refused", "Requests that were refused."),
    (
        "messages_expired",
        "messages_expired",
        "Messages not delivered live since their time to live was over.",
    ),
    ("sessions_opened", "sessions_opened", "Sessions opened."),
    ("sessions_closed", "sessions_closed", "Sessions closed."),
    ("slow_consumers", "slow_consumers", "Sessions cut off for reading too slowly."),
    ("puts", "puts", "Messages put to topics."),
    ("put_duplicates", "duplicates", "Puts that were there already."),
    ("notifications_created", "notifications", "Notifications that services created."),
    ("calls", "calls", "Calls of services."),
    ("calls_failed", "calls_failed", "Those that no service answered well."),
    ("stream_events", "stream_events", "Events handed to streams."),
    ("stream_events_failed", "stream_events_failed", "Those that no stream confirmed."),
)
_GAUGES: tuple[Figure, ...] = (
    ("sessions", "sessions", "Open sessions."),
    ("subscriptions", "subscriptions", "Subscriptions."),
)
_LAGS: tuple[Figure, ...] = (
    ("durable_subscriptions", "subscriptions", "Durable subscriptions."),
    (
        "topic_lag",
        "total",
        "Messages that durable subscriptions have not acknowledged, summed over them.",
    ),
    (
        "topic_lag_largest",
        "largest",
        "Messages that the durable subscription farthest behind has not acknowledged.",
    ),
)


_SERIES: tuple[Figure, ...] = (
    ("lag", "messages", "Messages that a durable subscription has not acknowledged"),
    ("unacknowledged", "handed_out", "Messages that its consumers hold"),
    ("redeliveries", "redeliveries", "Messages that it handed out again"),
    ("dead_letters", "dead_letters", "Its dead letters that no replay delivered"),
)


class RoomCollector:
    """Metrics that rooms declare."""

    def __init__(self, node: Node, owner: ChannelOwner) -> None:
        self._node = node
        self._rooms = (*node.rooms, *owner.rooms)

    def collect(self) -> Iterable[Metric]:
        for room in self._rooms:
            for figure in room.figures():
                hubs = sorted({*self._node.counters, *figure.values})
                values = {hub: figure.values.get(hub, 0) for hub in hubs}
                kind = CounterMetricFamily if figure.rises else GaugeMetricFamily
                yield filled(kind, figure.name, figure.about, values)


class LagCollector:
    """The lags of durable subscriptions. Only a few have their own series, since there may be any
    number."""

    def __init__(self, node: Node, lags: LagSurvey) -> None:
        self._node = node
        self._lags = lags

    def collect(self) -> Iterable[Metric]:
        hubs, no_lag = sorted({*self._node.counters, *self._lags.hubs}), HubLag()
        lags = {hub: self._lags.hubs.get(hub, no_lag) for hub in hubs}
        yield from by_hub(GaugeMetricFamily, _LAGS, lags)
        for name, attribute, text in _SERIES:
            yield self._single(name, attribute, text)

    def _single(self, name: str, attribute: str, text: str) -> Metric:
        family = GaugeMetricFamily(
            f"hubbub_subscription_{name}",
            f"{text}; only of those farthest behind (channel.lagSeries).",
            labels=["hub", "channel", "owner", "name"],
        )
        for lag in self._lags.farthest:
            key = lag.key
            names = [key.hub, key.channel, key.owner, key.name]
            family.add_metric(names, getattr(lag, attribute))
        return family


class HubCollector:
    """Reads the counters of all hubs when Prometheus scrapes."""

    def __init__(
        self,
        node: Node,
        owner: ChannelOwner,
        problem: Callable[[], str | None],
        http_connections: Callable[[], int],
        journal: JournalWriter | None,
        nats: Callable[[], bool] | None,
        loop_lag: LoopLag,
    ) -> None:
        self._loop_lag = loop_lag
        self._nats = nats
        self._node = node
        self._owner = owner
        self._problem = problem
        self._http_connections = http_connections
        self._journal = journal

    def collect(self) -> Iterable[Metric]:
        hubs = self._node.counters
        yield from by_hub(CounterMetricFamily, _COUNTERS, hubs)
        yield from by_hub(GaugeMetricFamily, _GAUGES, hubs)
        channels = {hub: self._owner.channels.count(hub) for hub in hubs}
        yield filled(GaugeMetricFamily, "channels", "Channels in use.", channels)
        over = self._owner.stored_bytes.over_quota
        yield filled(
            GaugeMetricFamily,
            "over_quota",
            "1 where a hub takes more bytes than its quota of stored bytes.",
            {hub: hub in over for hub in {*hubs, *over}},
        )
        yield GaugeMetricFamily("hubbub_hubs", "Hubs in memory.", value=len(self._node.hubs))
        yield GaugeMetricFamily(
            "hubbub_waiting_writes",
            "Messages that wait for the store.",
            value=self._owner.waiting_writes(),
        )
        yield GaugeMetricFamily(
            "hubbub_store_degraded",
            "1 while the store takes nothing more, since it is full or away.",
            value=self._problem() is not None,
        )
        yield GaugeMetricFamily(
            "hubbub_loop_lag_seconds",
            "How late the event loop was at worst in the last ten seconds.",
            value=self._loop_lag.worst(),
        )
        yield GaugeMetricFamily(
            "hubbub_http_connections", "Open HTTP connections.", value=self._http_connections()
        )
        yield histogram(
            "publish_seconds",
            "Time to take in one publish request.",
            {hub: counters.publishes for hub, counters in hubs.items()},
        )
        deliveries = self._node.fanout.deliveries
        if deliveries is not None:
            yield histogram(
                "delivery_seconds",
                "Time from the arrival of a message to writing it to a subscriber.",
                deliveries.durations,
            )
        if self._nats is not None:
            yield GaugeMetricFamily(
                "hubbub_nats_connected", "Whether NATS is there for services.", value=self._nats()
            )
        if self._journal is not None:
            yield from _journal_metrics(self._journal)


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
        collectors: Iterable[Collector],
        access: MetricsAccess,
        ready: Callable[[], str | None],
        problem: Callable[[], str | None],
        workers: tuple[Survey, str] | None = None,
    ) -> None:
        """`ready` returns what is missing, or None; `problem` what does not work. `workers`: the
        other workers, and their common name."""
        self._ready = ready
        self._problem = problem
        self._access = access
        self._page: bytes | None = None
        """The metrics page of this turn of the event loop."""
        self._registry = CollectorRegistry()
        for collector in collectors:
            self._registry.register(collector)
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._workers = None if workers is None else WorkerMetrics(self._registry.collect, *workers)

    @property
    def node_requests(self) -> Mapping[type[NodeRequest[Any]], NodeHandler]:
        """See `Room.node_requests`."""
        return {} if self._workers is None else self._workers.node_requests

    @property
    def pages(self) -> dict[str, Callable[[ReceivedRequest], Page | Awaitable[Page]]]:
        """The handlers of the pages, by path."""
        return {"/metrics": self.metrics, "/healthz": self.health, "/readyz": self.readiness}

    def metrics(self, request: ReceivedRequest) -> Page | Awaitable[Page]:
        """Computed once for all requests in the same turn of the event loop. Raises the errors of
        `MetricsAccess.check`."""
        self._access.check(request)
        if self._workers is not None:
            return self._of_all(self._workers)
        if self._page is None:
            self._page = generate_latest(self._registry)
            asyncio.get_running_loop().call_soon(self._forget_page)
        return 200, _METRICS, self._page

    @staticmethod
    async def _of_all(workers: WorkerMetrics) -> Page:
        return 200, _METRICS, await workers.page()

    def _forget_page(self) -> None:
        self._page = None

    def health(self, _: ReceivedRequest) -> tuple[int, str, bytes]:
        """The process is alive and its event loop runs."""
        return 200, "application/json", _json({"status": "ok", "version": __version__})

    def readiness(self, _: ReceivedRequest) -> tuple[int, str, bytes]:
        """Whether clients should be routed here."""
        missing = self._ready()
        if missing is None:
            problem = self._problem()
            if problem is None:
                return 200, "application/json", _json({"status": "ready"})
            return 200, "application/json", _json({"status": "degraded", "reason": problem})
        return 503, "application/json", _json({"status": "not ready", "reason": missing})


def _json(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"
