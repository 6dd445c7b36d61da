"""Whatever ends the pipeline and whenever, the tables are as if nothing had happened."""

from __future__ import annotations

import contextlib
import random
import resource
import subprocess
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from harness.pipeline_runs import finish, start, undisturbed, write_journal
from harness.processes import jvms_of, wait_for_jvm, wait_until_gone
from harness.segments import Pipeline

pytestmark = [pytest.mark.spec("PIPE-02"), pytest.mark.timeout(1800)]


def kill_and_compare(spark: SparkSession, folder: Path, kills: int, seed: int) -> None:
    killed = Pipeline(spark, folder / "killed")
    chance = random.Random(seed)
    write_journal(killed.journal, range(2))
    began = time.monotonic()
    finish(start(killed))
    seconds = time.monotonic() - began
    for number in range(kills):
        write_journal(killed.journal, [2 + number])
        process = start(killed)
        delay = chance.uniform(0.2, 1) * seconds
        # A run may be faster than its kill; that is a kill after the end.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(delay)
        left = jvms_of(process)
        process.kill()
        process.wait()
        wait_until_gone(*left)
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()
    finish(start(killed))
    other = undisturbed(spark, folder / "undisturbed", killed.journal)
    assert killed.everything() == other.everything()


@pytest.mark.long
def test_a_killed_run_continues_and_leaves_no_jvm(spark: SparkSession, tmp_path: Path) -> None:
    kill_and_compare(spark, tmp_path, kills=2, seed=5)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_twenty_kills_at_random_moments_change_nothing(spark: SparkSession, tmp_path: Path) -> None:
    kill_and_compare(spark, tmp_path, kills=20, seed=7)


@pytest.mark.long
def test_a_killed_jvm_is_said_and_the_next_run_completes(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = Pipeline(spark, tmp_path)
    write_journal(pipeline.journal, range(1))
    process = start(pipeline)
    jvm = wait_for_jvm(process)
    while not list(pipeline.warehouse.path.glob("*/*.parquet")):
        assert process.poll() is None
        time.sleep(0.01)
    jvm.kill()
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 1
    assert errors.startswith(b"Spark's JVM ended in the middle of the work")
    assert pipeline.rows("messages") == []
    finish(start(pipeline))
    assert len(pipeline.rows("messages")) == 13


@pytest.mark.long
def test_a_full_disk_leaves_what_was_committed(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = Pipeline(spark, tmp_path)
    write_journal(pipeline.journal, range(1))
    finish(start(pipeline))
    before = pipeline.everything()
    write_journal(pipeline.journal, [1], payload=100_000)

    # No file may grow beyond this, in the process or its JVM: what a full disk looks like to them.
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limit[1]))
    try:
        process = start(pipeline)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    _, errors = process.communicate(timeout=600)
    assert process.returncode != 0
    assert errors.startswith(b"the disk is full")
    assert pipeline.everything() == before
    finish(start(pipeline))
    assert len(pipeline.rows("messages")) == 25
