"""`hubbub pipeline` from outside: what it says, how it ends, and that no JVM is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.pipeline_kills import QUICK, Follower
from harness.processes import wait_for_jvm, wait_until_gone
from harness.segments import NOON, delivered, published, write_segment
from hubbub.pipeline.errors import SparkMissing
from hubbub.pipeline.java import require_spark
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.tables.rounds import RoundLock
from hubbub.pipeline.tables.snapshot import open_snapshot

pytestmark = [pytest.mark.spec("PIPE-02"), pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def _needs_java() -> None:
    try:
        require_spark()
    except SparkMissing as error:
        pytest.skip(str(error))


def start(folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
    command, *options = arguments
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "hubbub.cli.main", "pipeline", command),
            *("--journal", str(folder / "journal"), "--warehouse", str(folder / "warehouse")),
            *options,
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def run(folder: Path, *arguments: str, **environment: str) -> tuple[int, str, str]:
    process = start(folder, *arguments, **environment)
    output, errors = process.communicate(timeout=800)
    return process.returncode, output.decode(), errors.decode()


def test_a_run_says_what_it_did_and_the_next_one_that_there_is_nothing_to_do(
    tmp_path: Path,
) -> None:
    write_segment(tmp_path / "journal", "a", [published(1), delivered(1), published(2, at=-1)])
    code, output, errors = run(tmp_path, "run", *QUICK)
    assert code == 0, errors
    assert "starting Spark" in errors, "progress is said, also where there is no terminal"
    assert "[1/7] taking in 1 segments" in errors
    assert "round 1: took in 1 segments with 2 events" in output
    assert "refused: 1 bad_time" in output
    code, output, errors = run(tmp_path, "run", "--json")
    assert (code, errors, json.loads(output)["events"]) == (0, "", 0)
    assert len(open_snapshot(tmp_path / "warehouse").read("traffic")) == 1


def test_a_second_pipeline_says_so_and_stops(tmp_path: Path) -> None:
    write_segment(tmp_path / "journal", "a", [published(1)])
    with RoundLock(Location(tmp_path / "warehouse")).running(lambda: NOON):
        code, _, errors = run(tmp_path, "run")
    assert code == 1
    assert errors.startswith(f"hubbub: process {os.getpid()} on ")


@pytest.mark.parametrize(
    ("arguments", "environment", "said", "expected"),
    [
        (("run",), {"JAVA_HOME": "/nonexistent"}, "JAVA_HOME is /nonexistent", 1),
        (("run", "--conf", "nonsense"), {}, "--conf nonsense: it should be", 2),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    tmp_path: Path,
    arguments: tuple[str, ...],
    environment: dict[str, str],
    said: str,
    expected: int,
) -> None:
    code, output, errors = run(tmp_path, *arguments, **environment)
    assert (code, output) == (expected, "")
    assert errors.startswith(f"hubbub: {said}")
    assert errors.count("\n") == 1


def test_a_mistyped_journal_or_warehouse_is_named(tmp_path: Path) -> None:
    code, output, errors = run(tmp_path, "run")
    assert (code, output) == (2, "")
    assert (
        errors == f"hubbub: {tmp_path}/journal holds no journal; give its folder with --journal\n"
    )
    (tmp_path / "warehouse").write_text("no folder")
    code, _, errors = run(tmp_path, "run")
    assert code == 2
    assert f"{tmp_path}/warehouse is a file; give a folder" in errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_jvm_outlives_the_command_however_it_ends(tmp_path: Path, number: int) -> None:
    write_segment(tmp_path / "journal", "a", [published(1)])
    process = start(tmp_path, "start", "--every", "3600", *QUICK)
    jvm = wait_for_jvm(process)
    process.send_signal(number)
    process.communicate(timeout=120)
    wait_until_gone(jvm)
    assert process.returncode == (-number if number == signal.SIGKILL else 0)
    with RoundLock(Location(tmp_path / "warehouse")).running(lambda: NOON):
        pass


def test_a_follower_that_is_ended_in_the_middle_of_a_round_ends(tmp_path: Path) -> None:
    write_segment(tmp_path / "journal", "a", [published(1)])
    follower = Follower(tmp_path / "journal", tmp_path / "warehouse")
    follower.wait_for_stage("sessions")
    follower.stop()
    assert (follower.process.returncode, follower.rounds) == (0, 0)
