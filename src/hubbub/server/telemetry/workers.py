"""The metrics of all workers of one machine on one page, whichever worker is scraped.

The scraped worker asks the others over the bus. Counters must never fall, or Prometheus assumes a
restart and counts everything again: so the last counters of workers that died, or do not respond in
time, stay in the sum. For the same reason the scraped worker passes its own counters along, in case
it dies, and the others return counters of workers that they know: a worker that was started after
the death of another learns its counters this way.
"""

from __future__ import annotations

import asyncio
import secrets
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from hubbub.domain.asking import NodeRequest
from hubbub.engine.administration.survey import ReadMetrics, Survey
from hubbub.engine.rooms import NodeHandler

_MOST_REMEMBERED = 64
"""The most dead workers; beyond that, the counters of the longest dead are dropped."""
_MOST_BYTES = 64 << 20
"""The size limit of one worker's metrics, unpacked."""
_GAUGES: dict[str, Callable[[float, float], float]] = {
    "hubbub_cluster_in_reach": min,
    "hubbub_cluster_nodes": max,
    "hubbub_hubs": max,
    "hubbub_loop_lag_seconds": max,
    "hubbub_nats_connected": min,
    "hubbub_over_quota": max,
    "hubbub_store_degraded": max,
    "hubbub_topic_lag_largest": max,
    "hubbub_subscription_lag": max,
    "hubbub_subscription_unacknowledged": max,
    "hubbub_subscription_redeliveries": max,
    "hubbub_subscription_dead_letters": max,
    "process_max_fds": max,
    "process_start_time_seconds": min,
}
"""How gauges are merged that are not summed."""

Labels = tuple[tuple[str, str], ...]


class Family(msgspec.Struct, frozen=True, array_like=True):
    """A family of metrics: its samples with their names and labels."""

    name: str
    kind: str
    text: str
    samples: list[tuple[str, Labels, float]]


class WorkerFigures(msgspec.Struct, frozen=True, array_like=True):
    """The counters of one process; `process` changes with each start."""

    process: str
    families: list[Family]
    at: float
    """The monotonic clock, shared by all workers of the machine: the later of two reports of a
    process counts."""

    def lasting(self) -> WorkerFigures:
        """The part that still counts when the process is dead."""
        kept = [
            Family(each.name, each.kind, each.text, [s for s in each.samples if s[2]])
            for each in self.families
            if each.kind != "gauge"
        ]
        return WorkerFigures(self.process, kept, self.at)


def figures_of(process: str, collected: Iterable[Metric]) -> WorkerFigures:
    return WorkerFigures(
        process,
        [
            Family(
                each.name,
                each.type,
                each.documentation,
                [(s.name, tuple(s.labels.items()), float(s.value)) for s in each.samples],
            )
            for each in collected
        ],
        time.monotonic(),
    )


_decoder = msgspec.msgpack.Decoder(list[WorkerFigures])


def pack(figures: Sequence[WorkerFigures]) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(figures), 1)


def unpack(data: bytes) -> list[WorkerFigures]:
    return _decoder.decode(zlib.decompressobj().decompress(data, _MOST_BYTES))


class WorkerMetrics:
    """The metrics of one worker. `group` names the workers that belong together."""

    def __init__(self, collect: Callable[[], Iterable[Metric]], survey: Survey, group: str) -> None:
        self._collect = collect
        self._survey = survey
        self._group = group
        self._process = secrets.token_hex(8)
        self._remembered: dict[str, WorkerFigures] = {}
        """Reports by process."""
        self._making: asyncio.Task[bytes] | None = None
        self.node_requests: Mapping[type[NodeRequest[Any]], NodeHandler] = {
            ReadMetrics: self._answer
        }
        """See `Room.node_requests`."""

    async def page(self) -> bytes:
        """Computed once for all concurrent requests; the wait for other workers has the usual
        timeout of questions to all nodes."""
        if self._making is None or self._making.done():
            self._making = asyncio.get_running_loop().create_task(self._make())
        return await asyncio.shield(self._making)

    async def _make(self) -> bytes:
        known = {process: each.at for process, each in self._remembered.items()}
        question = ReadMetrics(self._group, pack([self._own().lasting()]), known)
        answers, _ = await self._survey.ask(question)
        workers = []
        for own, *heard in (unpack(each) for each in answers if each):
            workers.append(own)
            for each in (own.lasting(), *heard):
                self._remember(each)
        answered = {each.process for each in workers}
        gone = [each for process, each in self._remembered.items() if process not in answered]
        return await asyncio.to_thread(_rendered, workers, gone)

    async def _answer(self, _: str, question: ReadMetrics) -> bytes:
        if question.group != self._group:
            return b""
        known = question.known
        heard = [
            each
            for process, each in self._remembered.items()
            if process != self._process and each.at > known.get(process, -1)
        ]
        for each in unpack(question.asker):
            self._remember(each)
        return pack([self._own(), *heard])

    def _own(self) -> WorkerFigures:
        return figures_of(self._process, self._collect())

    def _remember(self, figures: WorkerFigures) -> None:
        before = self._remembered.get(figures.process)
        if before is not None and before.at > figures.at:
            return  # hearsay that is older
        self._remembered[figures.process] = figures
        if len(self._remembered) > _MOST_REMEMBERED:
            # All workers drop the same ones, or they would tell them each other again and again.
            del self._remembered[min(self._remembered, key=lambda each: self._remembered[each].at)]


def merged(processes: Sequence[WorkerFigures]) -> list[Metric]:
    """One family per name: counters and buckets are summed, gauges are merged by kind."""
    families: dict[str, Metric] = {}
    values: dict[str, dict[tuple[str, Labels], float]] = {}
    for figures in processes:
        for family in figures.families:
            found = families.get(family.name)
            if found is None:
                found = families[family.name] = Metric(family.name, family.text, family.kind)
            of_family = values.setdefault(family.name, {})
            join = _GAUGES.get(family.name, float.__add__)
            for name, labels, value in family.samples:
                before = of_family.get((name, labels))
                of_family[name, labels] = value if before is None else join(before, value)
    for name, metric in families.items():
        for (sample, labels), value in values[name].items():
            metric.add_sample(sample, dict(labels), value)
    return list(families.values())


class _Collected:
    """An adapter for `generate_latest`."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Sequence[Metric]:
        return self._metrics


def _rendered(workers: Sequence[WorkerFigures], gone: Sequence[WorkerFigures]) -> bytes:
    count = GaugeMetricFamily(
        "hubbub_workers", "Workers whose gauges are in these figures.", value=len(workers)
    )
    return generate_latest(_Collected([*merged([*workers, *gone]), count]))
