"""Exactly once under a hail of SIGKILL, on both stores; and that the checker would see a fault.

`make faults` kills 500 times. A run is repeated by its seed:
`PYTHONPATH=.:tests python -m faults.exactly_once.campaign --seed N`.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from faults.exactly_once.campaign import Campaign, storage
from faults.exactly_once.checker import Report, check

pytestmark = pytest.mark.spec("ONCE-06")

SHORT_KILLS = 4
LONG_KILLS = 500


def run(folder: Path, kind: str, seed: int, kills: int) -> None:
    with storage(kind) as place:
        campaign = Campaign(folder, seed, kills, place)
        report = campaign.run()
    assert report.sent > 0
    assert report.good, f"seed {seed}: {report}"
    assert not campaign.failures, f"seed {seed}: {campaign.failures}, see {folder}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_nothing_is_lost_doubled_or_out_of_order_however_processes_are_killed(
    tmp_path: Path, kind: str
) -> None:
    run(tmp_path, kind, seed=11, kills=SHORT_KILLS)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_five_hundred_kills(tmp_path: Path, kind: str) -> None:
    run(tmp_path, kind, seed=2026, kills=LONG_KILLS)


# -- the checker --------------------------------------------------------------------------------

Applied = list[tuple[str, int, int]]
GOOD: Applied = [("anna", 1, 1), ("boris", 1, 2), ("anna", 2, 3)]


def judged(
    tmp_path: Path, applied: Applied, crew: Applied | None = None, sent: tuple[int, ...] = (1, 2)
) -> Report:
    """What the checker says where anna sent 1 and 2 (or `sent`), and boris 1."""

    def table(name: str, columns: str, rows: list[tuple[object, ...]]) -> Path:
        path = tmp_path / f"{name}.db"
        with sqlite3.connect(path) as database:
            kind = "sent" if columns == "n" else "applied"
            database.execute(f"CREATE TABLE {kind} ({columns})")
            marks = ", ".join("?" * len(columns.split(",")))
            database.executemany(f"INSERT INTO {kind} VALUES ({marks})", rows)
        database.close()
        return path

    columns = "producer, n, serial"
    return check(
        [table("anna", "n", [(n,) for n in sent]), table("boris", "n", [(1,)])],
        [table("ledger", columns, list(applied))],
        [[table("crew", columns, list(GOOD if crew is None else crew))]],
    )


def test_the_checker_is_content_with_a_good_history(tmp_path: Path) -> None:
    report = judged(tmp_path, GOOD)
    assert report.good
    assert (report.sent, report.applied) == (3, 3)


@pytest.mark.parametrize(
    ("applied", "fault"),
    [
        (GOOD[:2], "lost"),
        ([*GOOD, ("boris", 1, 4)], "doubled"),
        ([("boris", 1, 1), ("anna", 2, 2), ("anna", 1, 3)], "disordered"),
        ([("anna", 1, 2), ("boris", 1, 1), ("anna", 2, 3)], "disordered"),
        ([*GOOD, ("anna", 3, 4)], "invented"),
    ],
)
def test_the_checker_sees_a_fault(tmp_path: Path, applied: Applied, fault: str) -> None:
    report = judged(tmp_path, applied)
    assert not report.good
    assert getattr(report, fault) == 1
    assert report.examples


def test_the_checker_sees_what_a_crew_did_not_do(tmp_path: Path) -> None:
    assert judged(tmp_path, GOOD, crew=GOOD[:1]).lost == 2
    (tmp_path / "again").mkdir()
    assert judged(tmp_path / "again", GOOD, crew=GOOD * 2).good, "twice is allowed there"


def test_the_checker_sees_a_producer_that_lost_count(tmp_path: Path) -> None:
    assert judged(tmp_path, GOOD, sent=(1, 3)).invented
