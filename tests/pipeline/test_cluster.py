"""The same tables come out of a real Spark cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from harness.pipeline_runs import finish, start, undisturbed, write_journal
from harness.segments import Pipeline
from harness.spark_cluster import spark_cluster


@pytest.mark.spec("PIPE-02")
@pytest.mark.timeout(900)
def test_a_master_and_two_workers_make_the_same_tables(spark: SparkSession, tmp_path: Path) -> None:
    there = Pipeline(spark, tmp_path / "cluster")
    write_journal(there.journal, range(3))
    with spark_cluster(tmp_path) as master:
        executors = finish(start(there, master))
    assert int(executors) == 2
    here = undisturbed(spark, tmp_path / "local", there.journal)
    assert there.everything() == here.everything()
