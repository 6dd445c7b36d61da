"""Metrics of webhooks. Labels are hubs, kinds and outcomes, of which there are few; the admin API
shows single webhooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from hubbub.domain.webhooks import Kind
from hubbub.engine.node import Node
from hubbub.engine.webhooks.counting import HubWebhooks, PushCounters
from hubbub.engine.webhooks.driver import Driver
from hubbub.server.telemetry.families import Figure, by_hub, filled, histogram

_COUNTERS: tuple[Figure, ...] = (
    ("webhook_deliveries", "answered.count", "Messages that arrived at their webhooks."),
    ("webhook_dead_letters", "dead_letters", "Messages that webhooks gave up."),
    ("webhooks_ended", "ended", "Webhooks that their receiver or their lease put an end to."),
)
_GAUGES: tuple[Figure, ...] = (
    ("webhooks_sending", "sending", "Webhooks with a request under way."),
    ("webhooks_waiting", "waiting", "Webhooks whose message waits for its turn or its next try."),
)


class WebhookCollector:
    """Reads what this node's driver of webhooks knows."""

    def __init__(self, node: Node, driver: Driver) -> None:
        self._node = node
        self._driver = driver

    def collect(self) -> Iterable[Metric]:
        pushes, nothing, nobody = self._driver.survey(), PushCounters(), HubWebhooks()
        hubs = sorted({*self._node.counters, *self._driver.counters, *pushes})
        counted = {hub: self._driver.counters.get(hub, nothing) for hub in hubs}
        now = {hub: pushes.get(hub, nobody) for hub in hubs}
        yield _by_outcome(
            "hubbub_webhook_requests",
            "Requests to receivers.",
            {hub: {"ok": 0, **counters.outcomes} for hub, counters in counted.items()},
        )
        yield _by_outcome(
            "hubbub_topic_fetches",
            "Fetches of topics that live elsewhere, after a ping.",
            {hub: {"new": 0, **counters.fetches} for hub, counters in counted.items()},
        )
        yield histogram(
            "webhook_seconds",
            "Time from the request to the receiver's answer, of messages that arrived.",
            {hub: counters.answered for hub, counters in counted.items()},
        )
        yield histogram(
            "webhook_failed_seconds",
            "Time until a request to a receiver failed, by an answer or without one.",
            {hub: counters.failed for hub, counters in counted.items()},
        )
        yield from by_hub(CounterMetricFamily, _COUNTERS, counted)
        yield from by_hub(GaugeMetricFamily, _GAUGES, now)
        pinged = self._driver.pending_fetches()
        yield filled(
            GaugeMetricFamily,
            "topic_fetches_pending",
            "Topics that live elsewhere and are still to be fetched.",
            {hub: pinged[hub] for hub in hubs},
        )
        kinds = GaugeMetricFamily(
            "hubbub_webhooks", "Webhooks that this node drives.", labels=["hub", "kind"]
        )
        for hub, found in now.items():
            for kind in get_args(Kind):
                kinds.add_metric([hub, kind], found.kinds[kind])
        yield kinds
        outgoing = self._driver.outgoing
        yield GaugeMetricFamily(
            "hubbub_webhook_in_flight", "Requests to receivers under way.", value=outgoing.in_flight
        )
        yield GaugeMetricFamily(
            "hubbub_webhook_breakers_open",
            "Hosts of receivers that are left alone for now.",
            value=outgoing.open_breakers(),
        )


def _by_outcome(name: str, text: str, counts: Mapping[str, Mapping[str, int]]) -> Metric:
    """A series begins with its first request, since most outcomes never occur."""
    family = CounterMetricFamily(name, text, labels=["hub", "outcome"])
    for hub, outcomes in counts.items():
        for outcome, count in outcomes.items():
            family.add_metric([hub, outcome], count)
    return family
