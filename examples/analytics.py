"""Looks at what the data pipeline made, with plain PySpark.

    hubbub pipeline run
    python examples/analytics.py data/warehouse

Two tables are read: `traffic`, which answers one question, and `messages` with every message that
was published, for questions that nobody has thought of yet.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hubbub.pipeline.sources import register


def table(spark: SparkSession, warehouse: Path, name: str) -> DataFrame:
    """A table or a view as of the last round of the pipeline."""
    return spark.read.format("hubbub_table").option("table", name).load(str(warehouse))


def busiest_hours(traffic: DataFrame) -> DataFrame:
    """What is counted can be added up: five minutes to hours, hubs to all."""
    return (
        traffic.groupBy("hub", "hour")
        .agg(
            F.sum("messages_in").alias("messages_in"),
            F.sum("messages_out").alias("messages_out"),
            F.max("latency_p99").alias("worst_p99"),
        )
        .orderBy(F.desc("messages_in"), "hub", "hour")
    )


def loudest_publishers(messages: DataFrame) -> DataFrame:
    """A question without a table of its own."""
    return (
        messages.groupBy("hub", F.coalesce("user", F.lit("(anonymous)")).alias("user"))
        .agg(F.count("*").alias("messages"), F.count_distinct("channel").alias("channels"))
        .orderBy(F.desc("messages"), "hub", "user")
    )


def main() -> None:
    warehouse = Path(sys.argv[1] if len(sys.argv) > 1 else "data/warehouse")
    spark = (
        SparkSession.builder.master("local[*]")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    register(spark)
    try:
        busiest_hours(table(spark, warehouse, "traffic")).show(10, truncate=False)
        loudest_publishers(table(spark, warehouse, "messages")).show(10, truncate=False)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
