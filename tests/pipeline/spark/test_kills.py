"""Whatever ends the pipeline and whenever, the tables are as if nothing had happened."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from harness.pipeline_kills import STARTING, Campaign, Follower
from harness.pipeline_runs import finish, start, undisturbed, write_journal
from harness.processes import wait_for_jvm
from harness.segments import Pipeline
from harness.spark_cluster import QUICK_JAVA, spark_cluster

pytestmark = [pytest.mark.spec("PIPE-02"), pytest.mark.timeout(1800)]


@pytest.fixture
def campaign(spark: SparkSession, tmp_path: Path) -> Iterator[Campaign]:
    """Afterwards all tables must be those of a run that nothing disturbed."""
    campaign = Campaign(tmp_path / "killed", seed=7)
    yield campaign
    same_as_undisturbed(spark, campaign, tmp_path / "undisturbed")


def same_as_undisturbed(spark: SparkSession, campaign: Campaign, folder: Path) -> None:
    killed = Pipeline(spark, campaign.journal.parent)
    other = undisturbed(spark, folder, killed.journal)
    found = killed.everything()
    assert not {"messages", "attempts", "replies", "threads", "audit"} - {
        name for name, rows in found.items() if rows
    }
    for name, rows in other.everything().items():
        assert found[name] == rows, name


COLD, WARM = False, True
"""In the first round of a process, or in a later one."""


@pytest.mark.long
@pytest.mark.parametrize(
    "moments",
    [
        [("taking in", WARM), (STARTING, COLD), ("taking in", COLD)],
        [("looking", WARM), ("taking out", COLD), ("sessions", COLD)],
        [("threads", WARM), ("committing", WARM), ("committing", COLD)],
    ],
    ids=["early", "midway", "late"],
)
def test_drivers_that_are_killed_change_nothing_and_leave_no_jvm(
    campaign: Campaign, moments: list[tuple[str, bool]]
) -> None:
    with campaign.running():
        for stage, is_warm in moments:
            if is_warm:
                campaign.settle()
            campaign.kill_driver(stage)


@pytest.mark.long
def test_jvms_that_are_killed_change_nothing(campaign: Campaign) -> None:
    with campaign.running():
        for stage in ("looking", "taking in", "taking out", "threads", "committing"):
            campaign.settle()
            campaign.kill("JVM", stage, Follower.kill_jvm)


@pytest.mark.long
def test_python_workers_that_are_killed_change_nothing(campaign: Campaign) -> None:
    with campaign.running():
        for stage in ("looking", "taking in", "taking out", "sessions", "threads"):
            campaign.settle()
            campaign.kill("Python workers", stage, Follower.kill_python_workers)


@pytest.mark.long
def test_cluster_workers_that_are_killed_change_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    with spark_cluster(tmp_path) as cluster:
        options = (
            *("--master", cluster.address, "--conf", "spark.executor.memory=512m"),
            *("--conf", f"spark.executor.extraJavaOptions={QUICK_JAVA}"),
        )
        campaign = Campaign(tmp_path / "killed", 7, *options)
        with campaign.running():
            for stage in ("taking in", "looking", "sessions", "threads"):
                campaign.settle()
                campaign.kill("cluster worker", stage, lambda _: cluster.kill_worker())
                cluster.start_worker()
    same_as_undisturbed(spark, campaign, tmp_path / "undisturbed")


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
