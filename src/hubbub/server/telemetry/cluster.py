"""Metrics of a node's role in its cluster, also for a single node."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


class ClusterFigures(msgspec.Struct, frozen=True):
    nodes: int = 1
    partitions: int = 0
    in_reach: bool = True
    refused: int = 0
    """Messages on the bus that were not signed by a member, or were replays."""
    unsent: int = 0
    """Datagrams dropped because NATS was unreachable or far behind."""


class ClusterCollector:
    def __init__(self, figures: Callable[[], ClusterFigures]) -> None:
        self._figures = figures

    def collect(self) -> Iterable[Metric]:
        figures = self._figures()
        for name, text, value in (
            ("nodes", "Nodes that this one hears, itself included.", figures.nodes),
            ("partitions", "Partitions that this node serves, of 1024.", figures.partitions),
            ("in_reach", "Whether the other nodes can be heard at all.", figures.in_reach),
        ):
            yield GaugeMetricFamily(f"hubbub_cluster_{name}", text, value=float(value))
        for name, text, count in (
            (
                "refused",
                "Messages on the bus that no member said.",
                figures.refused,
            ),
            ("unsent", "Datagrams dropped since NATS was away or behind.", figures.unsent),
        ):
            yield CounterMetricFamily(f"hubbub_cluster_{name}", text, value=float(count))
