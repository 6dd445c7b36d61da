"""Metrics of several workers, put together."""

from __future__ import annotations

import pytest
from prometheus_client import generate_latest
from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from hubbub.server.telemetry.workers import Figures, figures_of, merged, pack, unpack


def _figures(process: str, count: int, lag: float) -> Figures:
    puts = CounterMetricFamily("hubbub_puts", "Puts.", labels=["hub"])
    puts.add_metric(["a"], count)
    seconds = HistogramMetricFamily("hubbub_publish_seconds", "Time.", labels=["hub"])
    seconds.add_metric(["a"], [("0.1", count), ("+Inf", 2 * count)], 0.5)
    late = GaugeMetricFamily("hubbub_loop_lag_seconds", "Late.", value=lag)
    sessions = GaugeMetricFamily("hubbub_sessions", "Open.", value=count)
    return unpack(pack(figures_of(process, [puts, seconds, late, sessions])))


class _Page:
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        return self._metrics


@pytest.mark.spec("ADMIN-05", "CLU-05")
def test_counters_and_buckets_are_added_and_gauges_as_their_kind_wants() -> None:
    registry = CollectorRegistry()
    live = [_figures("1", 3, 0.25), _figures("2", 4, 0.125)]
    gone = _figures("3", 5, 9.0).lasting()
    registry.register(_Page(merged([*live, gone])))
    page = generate_latest(registry).decode().splitlines()
    assert [line for line in page if not line.startswith("#")] == [
        'hubbub_puts_total{hub="a"} 12.0',
        'hubbub_publish_seconds_bucket{hub="a",le="0.1"} 12.0',
        'hubbub_publish_seconds_bucket{hub="a",le="+Inf"} 24.0',
        'hubbub_publish_seconds_count{hub="a"} 24.0',
        'hubbub_publish_seconds_sum{hub="a"} 1.5',
        "hubbub_loop_lag_seconds 0.25",
        "hubbub_sessions 7.0",
    ]
