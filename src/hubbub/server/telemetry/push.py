"""Metrics of push, by hub, platform and outcome."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from hubbub.engine.push.driver import PushDriver
from hubbub.server.telemetry.families import buckets_of, filled


class PushCollector:
    """Reads what this node's driver of pushes knows."""

    def __init__(self, driver: PushDriver) -> None:
        self._driver = driver

    def collect(self) -> Iterable[Metric]:
        counters, queues = self._driver.counters, self._driver.queues
        attempts = CounterMetricFamily(
            "hubbub_push_attempts",
            "Attempts to reach a device, by what became of them.",
            labels=["hub", "platform", "outcome"],
        )
        seconds = HistogramMetricFamily(
            "hubbub_push_seconds",
            "Time from the request to the answer of a push service that took the push.",
            labels=["hub", "platform"],
        )
        for hub, found in counters.items():
            for (platform, outcome), count in found.outcomes.items():
                attempts.add_metric([hub, platform, outcome], count)
            for platform, durations in found.answered.items():
                seconds.add_metric([hub, platform], buckets_of(durations), durations.seconds)
        yield attempts
        yield seconds
        yield filled(
            CounterMetricFamily,
            "push_overflows",
            "Messages and deliveries that were dropped because the queue was full.",
            {hub: found.overflowed for hub, found in counters.items()},
        )
        yield filled(
            GaugeMetricFamily,
            "push_waiting",
            "Messages and deliveries that wait to be pushed.",
            {hub: len(queue.waiting) + queue.held for hub, queue in queues.items()},
        )
