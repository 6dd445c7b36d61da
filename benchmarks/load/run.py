"""One load on one server: start its processes, warm up, count for a while, take stock."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.load.board import Board, Phase, Slot, Worker
from benchmarks.load.histogram import Histogram
from benchmarks.load.publishers import Pace, Published, Steady, publish
from benchmarks.load.requesters import Answered, Requests, request
from benchmarks.load.subscribers import Audience, Received, subscribe
from benchmarks.load.wire import Publication

_DRAIN_SECONDS = 5.0
_BUSY = 0.9
_ON_TIME = 0.97


@dataclass(frozen=True, slots=True)
class Latency:
    """In microseconds."""

    p50: float
    p90: float
    p99: float
    longest: float

    @classmethod
    def of(cls, histogram: Histogram) -> Latency:
        p50, p90, p99 = (histogram.percentile(share) / 1e3 for share in (0.5, 0.9, 0.99))
        return cls(p50, p90, p99, histogram.maximum / 1e3)


@dataclass(frozen=True, slots=True)
class FanOut:
    """What subscribers and a publisher measured. `busy` is a share of one core."""

    seconds: float
    published: int
    delivered: int
    lost: int
    closed: int
    cut: int
    chunks: int
    latency: Latency
    subscribers_busy: float
    publisher_busy: float
    client_was_bottleneck: bool


@dataclass(frozen=True, slots=True)
class Exchange:
    """What requesters measured."""

    seconds: float
    answered: int
    closed: int
    odd: str
    latency: Latency
    requesters_busy: float
    client_was_bottleneck: bool


class Load:
    """Processes that are connected and quiet, and the counts that they share."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self._began = (0.0, 0, 0, 0)

    def warm(self, seconds: float) -> None:
        """Starts, and waits until caches and connections are warm."""
        self.board.phase = Phase.WARM
        time.sleep(seconds)

    def begin(self) -> None:
        self.board.phase = Phase.COUNT
        self._began = self._now()

    def counted(self) -> tuple[float, int, int, int]:
        """Seconds, sent, delivered and chunks since `begin`."""
        now, then = self._now(), self._began
        return now[0] - then[0], now[1] - then[1], now[2] - then[2], now[3] - then[3]

    def _now(self) -> tuple[float, int, int, int]:
        board = self.board
        return time.monotonic(), board[Slot.SENT], board[Slot.DELIVERED], board[Slot.CHUNKS]


class FanOutLoad(Load):
    """Made by `fan_out`."""

    def __init__(self, board: Board, workers: tuple[Worker, Worker], pace: Pace) -> None:
        super().__init__(board)
        self._subscribers, self._publisher = workers
        self._pace = pace

    def end(self) -> FanOut:
        """Stops publishing, waits for what is still under way, and takes stock."""
        seconds, published, delivered, chunks = self.counted()
        lost = self._drain()
        closed = self.board[Slot.CLOSED]
        self.board.phase = Phase.EXIT
        received: Received = self._subscribers.result()
        sender: Published = self._publisher.result()
        busy = received.cpu_seconds / (received.wall_seconds or 1)
        return FanOut(
            seconds=seconds,
            published=published,
            delivered=delivered,
            lost=lost,
            closed=closed,
            cut=received.cut,
            chunks=chunks,
            latency=Latency.of(received.latency),
            subscribers_busy=busy,
            publisher_busy=sender.cpu_seconds / (sender.wall_seconds or 1),
            client_was_bottleneck=busy > _BUSY or self._is_late(published, seconds),
        )

    def _drain(self) -> int:
        """How many deliveries are missing when nothing more comes."""
        self.board.phase = Phase.DRAIN
        board, deadline = self.board, time.monotonic() + _DRAIN_SECONDS
        while True:
            time.sleep(0.05)
            missing = board[Slot.SENT] * board[Slot.SUBSCRIBERS] - board[Slot.DELIVERED]
            if missing <= 0 or time.monotonic() > deadline:
                return missing

    def _is_late(self, published: int, seconds: float) -> bool:
        pace = self._pace
        return isinstance(pace, Steady) and published < _ON_TIME * pace.per_second * seconds


class ExchangeLoad(Load):
    """Made by `exchange`."""

    def __init__(self, board: Board, requester: Worker) -> None:
        super().__init__(board)
        self._requester = requester

    def end(self) -> Exchange:
        seconds, _, answered, _ = self.counted()
        closed = self.board[Slot.CLOSED]
        self.board.phase = Phase.EXIT
        result: Answered = self._requester.result()
        busy = result.cpu_seconds / (result.wall_seconds or 1)
        return Exchange(
            seconds=seconds,
            answered=answered,
            closed=closed,
            odd=result.odd.decode(errors="replace"),
            latency=Latency.of(result.latency),
            requesters_busy=busy,
            client_was_bottleneck=busy > _BUSY,
        )


@contextlib.contextmanager
def fan_out(audience: Audience, publication: Publication, pace: Pace) -> Iterator[FanOutLoad]:
    """Subscribers and a publisher."""
    board = Board()
    with _working(board) as start:
        subscribers = start(Worker(board, subscribe, audience))
        publisher = start(Worker(board, publish, publication, pace, audience.niceness))
        yield FanOutLoad(board, (subscribers, publisher), pace)


@contextlib.contextmanager
def exchange(requests: Requests) -> Iterator[ExchangeLoad]:
    """Requesters."""
    board = Board()
    with _working(board) as start:
        yield ExchangeLoad(board, start(Worker(board, request, requests)))


@contextlib.contextmanager
def _working(board: Board) -> Iterator[Callable[[Worker], Worker]]:
    """Waits until each worker given is ready; none outlives the block."""
    workers: list[Worker] = []

    def started(worker: Worker) -> Worker:
        workers.append(worker)
        worker.wait_ready()
        return worker

    try:
        yield started
    finally:
        board.phase = Phase.EXIT
        for worker in workers:
            worker.stop()
