"""The Spark session fits the machine, and its JVM ends with whoever started it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import SparkContext, java_gateway
from pyspark.serializers import CPickleSerializer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.util import _load_from_socket

from benchmarks.servers import free_port
from hubbub.pipeline import java, session
from hubbub.pipeline.errors import PipelineError, SparkMissing
from hubbub.pipeline.failures import clear_spark_failures


@pytest.mark.spec("PIPE-02")
def test_times_are_in_utc_whatever_the_machine_thinks(spark: SparkSession) -> None:
    at = spark.range(1).select(F.timestamp_micros(F.lit(0)).cast("string").alias("at"))
    assert at.collect()[0].at == "1970-01-01 00:00:00"


def test_spark_listens_on_this_machine_only(spark: SparkSession) -> None:
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"


def test_a_missing_java_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SparkMissing, match=r"needs Java.*make pipeline.*openjdk"):
        java.require_spark()


def test_a_wrong_java_home_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    with pytest.raises(SparkMissing, match="JAVA_HOME is /nonexistent"):
        java.require_spark()


def test_an_interrupt_while_java_is_being_started_leaves_no_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def start_and_interrupt() -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sleep", "600"], stdin=subprocess.PIPE))
        os.kill(os.getpid(), signal.SIGUSR1)
        return started[-1]

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "_END_SECONDS", 0.01)
    monkeypatch.setattr(java_gateway, "Popen", start_and_interrupt)
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt), session._watching():
            vars(java_gateway)["Popen"]()
        assert started[0].returncode == -signal.SIGKILL
    finally:
        signal.signal(signal.SIGUSR1, before)
        started[0].kill()
        started[0].wait()


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """Stands in for the JVM."""
    with subprocess.Popen(["sleep", "60"]) as process:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
        yield process
        process.kill()


@pytest.mark.spec("PIPE-02")
def test_a_jvm_that_ends_before_it_hands_over_rows_is_said_to_have_ended(
    gateway: subprocess.Popen[bytes],
) -> None:
    """PySpark then fails with an `UnboundLocalError` of its own."""
    gateway.kill()
    rows = _load_from_socket((free_port(), "secret"), CPickleSerializer())
    with (
        pytest.raises(PipelineError, match="Spark's JVM ended") as failed,
        clear_spark_failures(Path("spark.log")),
        rows,
    ):
        pass
    assert isinstance(failed.value.__cause__, UnboundLocalError)


@pytest.mark.usefixtures("gateway")
def test_a_mistake_of_ours_is_not_taken_for_the_end_of_the_jvm() -> None:
    with pytest.raises(KeyError), clear_spark_failures(Path("spark.log")):
        raise KeyError("column")
