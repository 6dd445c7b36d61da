"""A cluster under load whose parts fail one after the other; and that the checker would see it.

`make faults-cluster` does it with every fault, for longer. A run is repeated by its seed:
`PYTHONPATH=.:tests python -m faults.cluster.campaign --seed N`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.soak.final import check_stored
from benchmarks.soak.ledger import Ledger, Track
from faults.cluster.campaign import run, schedule_of
from faults.cluster.checker import Hearing, Pickup, check_order, check_pickups
from faults.cluster.faults import NEEDS_NETWORKS, OF_A_NODE, OF_ALL
from faults.cluster.report import Service
from harness.namespaces import namespaces_work

SHORT = (
    ("kill", "west"),
    ("freeze", "north"),
    ("stop", "east"),
    ("two-owners", "west"),
    ("woken-owner", "north"),
    ("nats-server", "east"),
    ("postgres-restart", ""),
)


async def suffer(
    folder: Path, schedule: Sequence[tuple[str, str]], seconds: float, networks: bool = False
) -> None:
    report = await run(folder, schedule, seconds, networks=networks)
    print(report)
    assert report.ledger.counts["stored publishes acknowledged"]
    assert report.good, report


@pytest.mark.spec("CLU-02", "CLU-03", "CLU-04", "CLU-05")
@pytest.mark.timeout(300)
async def test_nothing_acknowledged_is_lost_doubled_or_out_of_order_whatever_fails(
    tmp_path: Path,
) -> None:
    await suffer(tmp_path, SHORT, seconds=1.2)


@pytest.mark.spec("CLU-02", "CLU-03", "CLU-04", "CLU-05")
@pytest.mark.long
@pytest.mark.timeout(7200)
async def test_every_fault_of_every_node(tmp_path: Path) -> None:
    networks = namespaces_work()
    faults = [f for f in (*OF_A_NODE, *OF_ALL) if networks or f not in NEEDS_NETWORKS]
    await suffer(tmp_path, schedule_of(faults, rounds=1, seed=2026), 30, networks)


# -- the checker --------------------------------------------------------------------------------


def told(*serials: int) -> Ledger:
    """The books of anna, who was told that her messages 1, 2, … are at these places."""
    ledger = Ledger()
    for number, serial in enumerate(serials, 1):
        ledger.acknowledge("log:0", f"anna-{number}", serial)
    return ledger


def history(*identifiers: str) -> list[dict[str, object]]:
    return [
        {"channelSerial": str(serial), "payload": {"json": {"id": identifier}}}
        for serial, identifier in enumerate(identifiers, 1)
    ]


def test_the_checker_is_content_with_a_good_run() -> None:
    ledger = told(1, 3)
    ledger.uncertain |= {"boris-1", "boris-2"}
    check_stored(ledger, "log:0", history("anna-1", "boris-1", "anna-2"))
    check_order(ledger)
    pickup = Pickup("ledger", "log:0", ledger)
    for serial, identifier in enumerate(("anna-1", "boris-1", "anna-2"), 1):
        pickup.take(serial, identifier)
    check_pickups([pickup])
    assert not ledger.problems


@pytest.mark.parametrize(
    "stored",
    [
        ("anna-1",),
        ("anna-1", "anna-2", "anna-2"),
        ("anna-2", "anna-1"),
        ("anna-1", "anna-2", "nobody-1"),
        ("anna-1", "anna-2", "boris-1", "boris-1"),
    ],
    ids=["lost", "doubled", "out of order", "from nowhere", "uncertain and twice"],
)
def test_the_checker_sees_what_is_wrong_in_a_channel(stored: tuple[str, ...]) -> None:
    ledger = told(1, 2)
    ledger.uncertain.add("boris-1")
    check_stored(ledger, "log:0", history(*stored))
    assert ledger.problems


def test_the_checker_sees_acknowledgements_out_of_order() -> None:
    ledger = told(2, 1)
    check_order(ledger)
    assert ledger.problems == ["log:0: anna-2 is #1, anna-1 before it #2"]


@pytest.mark.parametrize("serials", [(1, 3), (2,), (1,)], ids=["hole", "start", "end"])
def test_the_checker_sees_what_a_subscription_did_not_hand_out(serials: tuple[int, ...]) -> None:
    pickup = Pickup("ledger", "log:0", told(1, 2, 3))
    for serial in serials:
        pickup.take(serial, f"anna-{serial}")
    check_pickups([pickup])
    assert pickup.ledger.problems


def test_the_checker_sees_what_is_handed_out_after_it_was_acknowledged() -> None:
    pickup = Pickup("ledger", "log:0", told(1))
    pickup.take(1, "anna-1")
    pickup.take(1, "anna-1")
    assert not pickup.ledger.problems, "nobody knows yet that it is done"
    pickup.acknowledged = 1
    pickup.take(1, "anna-1")
    assert pickup.ledger.problems


def test_the_checker_sees_a_gap_that_nobody_announced() -> None:
    track = Track("socket", "live:0", stored=False, ledger=Ledger())
    track.begin("e", 1, recovered=True, asked=False)
    track.take(2, "a")
    track.gap("reset")
    track.take(7, "b")
    assert not track.ledger.problems
    track.take(9, "c")
    track.take(9, "c")
    assert len(track.ledger.problems) == 2


def test_service_is_away_until_a_publish_is_accepted_again() -> None:
    service, now = Service(), time.monotonic()
    service.failed("west", "log:0", now - 7)
    service.failed("west", "log:0", now - 3)
    service.worked("west", "log:1", now - 1)
    assert 1 <= service.longest(["west"]) < 7, "another channel"
    service.worked("west", "log:0", now)
    assert service.longest(["west"]) >= 7
    assert service.longest(["east"]) == 0
    service.begin()
    assert service.longest(["west"]) == 0


def test_a_message_is_late_for_those_who_were_there() -> None:
    hearing, now = Hearing(), time.monotonic()
    hearing.told("log:0", 1)
    hearing.heard("log:0", 2, now - 9)
    assert hearing.longest == 0, "nobody was told of it"
    hearing.heard("log:0", 1, now + 9)
    assert hearing.longest == 0, "they came later"
    hearing.heard("log:0", 1, now - 9)
    assert hearing.longest > 0
