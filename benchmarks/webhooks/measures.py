"""What is measured. Times are from before a publisher sends until a receiver has the request."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from benchmarks.servers import free_port, workplace
from benchmarks.webhooks.door import Door, Subject, webhook_hub
from benchmarks.webhooks.hosts import addresses, dead_hosts
from benchmarks.webhooks.receiver import Receivers, TooSlow, receivers

TOPIC = "sports"
BODY = b"The 2014 FIFA World Cup will take place in Brazil from 12 June to 13 July 2014\n"
_WARM_RUNS = 20
PAUSE_SECONDS = 0.1
_TRIES = 100


@dataclass(frozen=True, slots=True)
class Latencies:
    """In milliseconds, in the order of the runs."""

    runs: Sequence[float]

    @property
    def average(self) -> float:
        return fmean(self.runs)

    def percentile(self, share: float) -> float:
        return sorted(self.runs)[min(len(self.runs) - 1, int(share * len(self.runs)))]

    def table_row(self) -> str:
        """As the paper's Table I has it."""
        runs = self.runs
        return (
            f"min {min(runs):.2f}, avg {fmean(runs):.2f}, max {max(runs):.2f},"
            f" stddev {stdev(runs):.2f} ms"
        )

    def percentiles(self) -> str:
        shares = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999))
        return ", ".join(f"{name} {self.percentile(share):.2f}" for name, share in shares) + " ms"


# -- one receiver -----------------------------------------------------------------------------


def light(rounds: int, single: int, many: int) -> tuple[list[Latencies], Latencies]:
    """Rounds of `single` runs with a pause before each, and `many` runs without."""
    with (
        webhook_hub() as hub,
        receivers(addresses(1), free_port()) as receiver,
        Door(hub.port) as door,
    ):
        door.register(TOPIC)
        door.subscribe(TOPIC, receiver.addresses[0], receiver.port)
        request = door.publication(TOPIC, BODY)
        return _both(door, receiver, request, rounds, single, many)


def classic(rounds: int, single: int, many: int) -> tuple[list[Latencies], Latencies]:
    """The same with a ping, upon which the hub fetches the topic and sends it on."""
    with (
        webhook_hub() as hub,
        receivers(addresses(1), free_port()) as receiver,
        Door(hub.port) as door,
    ):
        place = f"http://{receiver.addresses[0]}:{receiver.port}"
        door.subscribe_classic(f"{place}/feed", f"{place}/callback")
        request = door.ping(f"{place}/feed")
        _until_verified(door, receiver, request)
        return _both(door, receiver, request, rounds, single, many)


def _until_verified(door: Door, receiver: Receivers, ping: bytes) -> None:
    """The hub asks the callback after it answered."""
    for _ in range(_TRIES):
        receiver.expect(1)
        door.send(ping)
        try:
            receiver.wait(0.1)
        except TooSlow:
            continue
        return
    raise TooSlow("the subscription was not verified")


def _both(
    door: Door, receiver: Receivers, request: bytes, rounds: int, single: int, many: int
) -> tuple[list[Latencies], Latencies]:
    _latencies(door, receiver, request, _WARM_RUNS)
    alone = [_latencies(door, receiver, request, single, PAUSE_SECONDS) for _ in range(rounds)]
    return alone, _latencies(door, receiver, request, many)


def _latencies(
    door: Door, receiver: Receivers, request: bytes, runs: int, pause_seconds: float = 0.0
) -> Latencies:
    found = []
    for _ in range(runs):
        time.sleep(pause_seconds)
        receiver.expect(1)
        began = time.monotonic_ns()
        door.send(request)
        receiver.wait()
        found.append((receiver.arrivals()[0] - began) / 1e6)
    return Latencies(found)


def bare_sync(runs: int, pause_seconds: float = PAUSE_SECONDS / 10) -> Latencies:
    """What the disk alone takes: every message is synced before it is sent on."""
    found = []
    with workplace(Path("data")) as folder, (folder / "probe").open("wb", buffering=0) as file:
        for _ in range(runs):
            time.sleep(pause_seconds)
            began = time.monotonic_ns()
            os.pwrite(file.fileno(), bytes(4096), 0)
            os.fdatasync(file.fileno())
            found.append((time.monotonic_ns() - began) / 1e6)
    return Latencies(found)


# -- many receivers ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fanout:
    """One publish to many: seconds until the last one had it, and the hub's CPU seconds, places on
    disk included. The first publish opens connections, the others find them open."""

    first: float
    first_cpu: float
    others: Sequence[float]
    cpu: float


def fanout(callbacks: int, publishes: int) -> Fanout:
    with webhook_hub() as hub, receivers(addresses(callbacks), free_port()) as receiver:
        hub.pin(0)
        with Door(hub.port) as door:
            _subscribe_all(door, receiver.addresses, receiver.port)
            request = door.publication(TOPIC, BODY)
            (first,), first_cpu = _repeat(hub, door, receiver, request, 1)
            others, cpu = _repeat(hub, door, receiver, request, publishes)
    return Fanout(first, first_cpu, others, cpu)


def _repeat(
    hub: Subject, door: Door, receiver: Receivers, request: bytes, publishes: int
) -> tuple[list[float], float]:
    """Seconds until all had it, for each, and CPU seconds for one."""
    before = hub.process.cpu_seconds()
    found = []
    for _ in range(publishes):
        found.append(max(_publish(door, receiver, request, receiver.counted)))
        time.sleep(0.3)
    return found, (hub.process.cpu_seconds() - before) / publishes


@dataclass(frozen=True, slots=True)
class Delays:
    """Of those that live, in seconds: how long the last one waited for the first publish, which
    opens connections and finds out who is dead; then all deliveries of the following ones, and for
    each of these how long it took until the last one had it."""

    first: float
    each: Sequence[float]
    last: Sequence[float]

    def percentile(self, share: float) -> float:
        return sorted(self.each)[min(len(self.each) - 1, int(share * len(self.each)))]


def delays(living: int, others: int, dead: bool, publishes: int) -> Delays:
    """`others` are receivers, too, and live like the rest, or are dead."""
    hosts = addresses(living + others)
    port = free_port()
    alive = hosts[:living] if dead else hosts
    with (
        dead_hosts(hosts[living:] if dead else (), port),
        webhook_hub() as hub,
        receivers(alive, port, counted=living) as receiver,
        Door(hub.port) as door,
    ):
        _subscribe_all(door, _mixed(hosts[:living], hosts[living:]), port)
        request = door.publication(TOPIC, BODY)
        first = max(_publish(door, receiver, request, living))
        each: list[float] = []
        last: list[float] = []
        for _ in range(publishes):
            time.sleep(0.3)
            found = _publish(door, receiver, request, living)
            each += found
            last.append(max(found))
    return Delays(first, each, last)


def _mixed(many: Sequence[str], few: Sequence[str]) -> list[str]:
    """In one row, the few spread evenly."""
    step = len(many) // max(1, len(few))
    row: list[str] = []
    for number, address in enumerate(many):
        if few and number % step == 0 and number // step < len(few):
            row.append(few[number // step])
        row.append(address)
    return row


def _subscribe_all(door: Door, hosts: Sequence[str], port: int) -> None:
    door.register(TOPIC)
    for address in hosts:
        door.subscribe(TOPIC, address, port)


def _publish(door: Door, receiver: Receivers, request: bytes, count: int) -> list[float]:
    """Seconds until each had it."""
    receiver.expect(count)
    began = time.monotonic_ns()
    door.send(request)
    receiver.wait()
    return [(arrived - began) / 1e9 for arrived in receiver.arrivals()]


# -- full speed -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sustained:
    per_cpu_second: float
    per_second: float
    receiver_cpu: float
    """CPU seconds of the receivers for each second of the clock; near 1 they are the limit."""


def sustained(callbacks: int, seconds: float, ahead: int = 8) -> Sustained:
    """A publisher that is never more than `ahead` messages in front of the deliveries."""
    with (
        webhook_hub() as hub,
        receivers(addresses(callbacks), free_port()) as receiver,
        Door(hub.port) as door,
    ):
        _subscribe_all(door, receiver.addresses, receiver.port)
        request = door.publication(TOPIC, BODY)
        receiver.expect(0)
        sent = [0]

        def flood(until: float) -> None:
            while time.monotonic() < until:
                if sent[0] * callbacks - receiver.total < ahead * callbacks:
                    door.send(request)
                    sent[0] += 1
                else:
                    time.sleep(0.0005)

        flood(time.monotonic() + seconds / 4)
        return _rates(hub, receiver, lambda: flood(time.monotonic() + seconds))


def _rates(hub: Subject, receiver: Receivers, work: Callable[[], None]) -> Sustained:
    began, cpu = time.monotonic(), hub.process.cpu_seconds()
    theirs, count = receiver.cpu_seconds(), receiver.total
    work()
    took, count = time.monotonic() - began, receiver.total - count
    cpu, theirs = hub.process.cpu_seconds() - cpu, receiver.cpu_seconds() - theirs
    return Sustained(count / cpu, count / took, theirs / took)
