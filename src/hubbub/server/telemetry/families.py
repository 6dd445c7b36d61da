"""Metric families with a series per hub, generated from tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from hubbub.engine.counters import BUCKETS, Durations

Figure = tuple[str, str, str]
"""The family's name after `hubbub_`, the attribute that holds the value, the help text."""


def by_hub(
    kind: type[CounterMetricFamily | GaugeMetricFamily],
    figures: Sequence[Figure],
    known: Mapping[str, object],
) -> Iterator[Metric]:
    """A family per figure, with each hub's value in `known`."""
    for name, attribute, text in figures:
        read = attrgetter(attribute)
        yield filled(kind, name, text, {hub: read(found) for hub, found in known.items()})


def filled(
    kind: type[CounterMetricFamily | GaugeMetricFamily],
    name: str,
    text: str,
    values: Mapping[str, float],
) -> Metric:
    family = kind(f"hubbub_{name}", text, labels=["hub"])
    for hub, value in values.items():
        family.add_metric([hub], value)
    return family


def histogram(name: str, text: str, durations: Mapping[str, Durations]) -> Metric:
    family = HistogramMetricFamily(f"hubbub_{name}", text, labels=["hub"])
    for hub, found in durations.items():
        family.add_metric([hub], buckets_of(found), found.seconds)
    return family


def buckets_of(durations: Durations) -> list[tuple[str, float]]:
    """Cumulative buckets, as in a histogram."""
    total = 0
    buckets: list[tuple[str, float]] = []
    for power in range(BUCKETS - 1):
        total += durations.buckets[power]
        buckets.append((f"{2**power / 1e6:.6g}", total))
    return [*buckets, ("+Inf", durations.count)]
