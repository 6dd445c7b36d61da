"""Documents under kills of their owner; and that the checker would see a fault.

`make faults-documents` kills 100 times.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.postgres import LocalPostgres
from faults.documents.campaign import run
from faults.documents.checker import Report, check
from harness.cluster import ground
from harness.postgres import new_database

pytestmark = pytest.mark.spec("DOC-03", "nothing acknowledged is lost when owners are killed")


async def suffer(folder: Path, postgres: LocalPostgres, kills: int, seed: int) -> None:
    async with ground(folder, await new_database(postgres)) as on:
        report = await run(folder, on, kills, seed)
    print(report)
    assert report.kills == kills
    assert report.acknowledged
    assert report.good, report


@pytest.mark.timeout(300)
async def test_copies_are_equal_and_nothing_acknowledged_is_missing_whenever_the_owner_is_killed(
    tmp_path: Path, postgres: LocalPostgres
) -> None:
    await suffer(tmp_path, postgres, kills=2, seed=15)


@pytest.mark.long
@pytest.mark.timeout(7200)
async def test_a_hundred_kills_of_the_owner(tmp_path: Path, postgres: LocalPostgres) -> None:
    await suffer(tmp_path, postgres, kills=100, seed=2026)


# -- the checker --------------------------------------------------------------------------------

LOG: list[dict[str, Any]] = [
    {"version": 1, "changeID": "a", "ops": [{"op": "add", "path": "/n", "value": 1}]},
    {"version": 2, "changeID": "b", "ops": [{"op": "replace", "path": "/n", "value": 2}]},
]


def judged(
    acknowledged: dict[str, int],
    log: list[dict[str, Any]] = LOG,
    copy: tuple[int, Any] = (2, {"n": 2}),
) -> Report:
    return check(Report(), acknowledged, log, {"n": 2}, {"e0": copy})


def test_the_checker_is_content_with_a_good_log() -> None:
    assert judged({"a": 1, "b": 2}).good
    assert judged({"a": 1}).good, "what nobody was told may be there"


def test_the_checker_sees_what_is_lost_doubled_or_diverged() -> None:
    assert judged({"a": 1, "c": 2}).lost == 1
    assert judged({"a": 2}).lost == 1, "under another version"
    again = {"version": 3, "changeID": "b", "ops": []}
    assert judged({"b": 2}, [*LOG, again], (3, {"n": 2})).doubled == 1
    assert judged({}, copy=(2, {"n": 3})).diverged == 1
    assert judged({}, copy=(1, {"n": 2})).diverged == 1
    assert judged({}, LOG[1:] and [LOG[0]], (1, {"n": 2})).diverged == 1
