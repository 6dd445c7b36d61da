"""The real command on a real Spark cluster, with its warehouse in an object store."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.fs
import pytest
from pyspark.sql import SparkSession

from harness.object_store import BUCKET, object_store, variables
from harness.pipeline_kills import QUICK
from harness.pipeline_runs import undisturbed, write_journal
from harness.segments import Pipeline
from harness.spark_cluster import QUICK_JAVA, SparkCluster, spark_cluster
from hubbub.pipeline.packaging import build
from hubbub.pipeline.tables.location import Location

pytestmark = [pytest.mark.spec("PIPE-02", "PIPE-07"), pytest.mark.timeout(900)]
_PYTHON = str(Path(sys.base_prefix) / "bin" / "python3")
"""Without Hubbub and Arrow: those come with the package."""


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with object_store() as address:
        for name, value in variables(address).items():
            monkeypatch.setenv(name, value)
        yield f"s3://{BUCKET}"


def command(cluster: SparkCluster, store: str, package: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "hubbub.cli.main", "pipeline", "run"),
            *("--journal", f"{store}/journal", "--warehouse", f"{store}/warehouse"),
            *("--master", cluster.address, "--package", str(package), *QUICK),
            *("--conf", f"spark.pyspark.python={_PYTHON}", "--conf", "spark.executor.memory=512m"),
            *("--conf", f"spark.executor.extraJavaOptions={QUICK_JAVA}"),
        ],
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_all_tables_come_out_of_a_cluster_and_an_object_store_though_a_worker_is_killed(
    spark: SparkSession, tmp_path: Path, store: str
) -> None:
    source = Pipeline(spark, tmp_path / "source")
    write_journal(source.journal, range(4))
    files, place = Location(f"{store}/journal").open()
    pyarrow.fs.copy_files(
        str(source.journal), place, pyarrow.fs.LocalFileSystem(), files, use_threads=False
    )
    package = tmp_path / "package.tar.gz"
    build(package)
    with spark_cluster(tmp_path) as cluster:
        process = command(cluster, store, package)
        assert process.stderr is not None
        for line in process.stderr:
            if "taking in" in line:
                cluster.workers[0].kill()
                break
        output, errors = process.communicate(timeout=800)
    assert process.returncode == 0, errors
    assert "round 1: took in 4 segments" in output
    there = Pipeline(spark, tmp_path / "there")
    there.warehouse = Location(f"{store}/warehouse")
    here = undisturbed(spark, tmp_path / "local", source.journal)
    assert there.everything() == here.everything()
