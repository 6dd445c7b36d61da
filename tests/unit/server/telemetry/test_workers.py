"""Metrics of several workers, put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest
from prometheus_client import generate_latest
from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from hubbub.engine.administration.survey import ReadMetrics, Survey
from hubbub.engine.rooms import NodeHandler
from hubbub.server.telemetry.workers import (
    WorkerFigures,
    WorkerMetrics,
    figures_of,
    merged,
    pack,
    unpack,
)


def _figures(process: str, count: int, lag: float) -> WorkerFigures:
    puts = CounterMetricFamily("hubbub_puts", "Puts.", labels=["hub"])
    puts.add_metric(["a"], count)
    seconds = HistogramMetricFamily("hubbub_publish_seconds", "Time.", labels=["hub"])
    seconds.add_metric(["a"], [("0.1", count), ("+Inf", 2 * count)], 0.5)
    late = GaugeMetricFamily("hubbub_loop_lag_seconds", "Late.", value=lag)
    sessions = GaugeMetricFamily("hubbub_sessions", "Open.", value=count)
    (figures,) = unpack(pack([figures_of(process, [puts, seconds, late, sessions])]))
    return figures


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


class Workers:
    """Stands for the bus between the workers of a machine."""

    def __init__(self) -> None:
        self.alive: dict[str, Survey] = {}
        self.answering: dict[str, NodeHandler] = {}

    def start(self, name: str, counted: int, more: Sequence[Metric] = ()) -> WorkerMetrics:
        survey = self.alive[name] = cast(Survey, _Survey(self))
        family = CounterMetricFamily("hubbub_messages_in", "Messages.", value=counted)
        found = WorkerMetrics(lambda: [family, *more], survey, "group")
        self.answering[name] = found.node_requests[ReadMetrics]
        return found


class _Survey:
    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    async def ask(self, question: ReadMetrics) -> tuple[list[bytes], int]:
        workers = self._workers
        return [await workers.answering[name](name, question) for name in workers.alive], 0


async def test_a_worker_that_is_started_after_a_death_counts_the_dead_one_too() -> None:
    workers = Workers()
    first, _ = workers.start("first", 2), workers.start("second", 3)
    assert b"hubbub_messages_in_total 5.0" in await first.page()
    del workers.alive["second"]
    third = workers.start("third", 1)
    for each in (third, first, third):
        assert b"hubbub_messages_in_total 6.0" in await each.page()
    del workers.alive["first"]
    fourth = workers.start("fourth", 1)
    assert b"hubbub_messages_in_total 7.0" in await fourth.page()


async def test_the_sum_stays_the_same_where_more_workers_died_than_are_remembered() -> None:
    workers = Workers()
    first, second = workers.start("first", 1000), workers.start("second", 1000)
    for number in range(80):
        short_lived = workers.start("short-lived", 1 + number)
        await (first, short_lived)[number % 2].page()
        del workers.alive["short-lived"]
    before = await first.page()
    assert [await each.page() for each in (first, second, first, second)] == [before] * 4


async def test_the_last_report_of_a_worker_counts_after_a_hub_is_gone_from_it() -> None:
    workers = Workers()
    puts = CounterMetricFamily("hubbub_puts", "Puts.", labels=["hub"])
    puts.add_metric(["gone"], 1000)
    first, second = workers.start("first", 0), workers.start("second", 2, [puts])
    await first.page()
    puts.samples.clear()
    puts.add_metric(["kept"], 7)
    assert b'hubbub_puts_total{hub="kept"} 7.0' in await first.page()
    del workers.alive["second"], second
    assert b'hubbub_puts_total{hub="kept"} 7.0' in await first.page()
