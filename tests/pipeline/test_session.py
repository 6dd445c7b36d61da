"""The Spark session fits the machine, and its JVM ends with whoever started it."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from hubbub.pipeline import java
from hubbub.pipeline.errors import SparkMissing


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
