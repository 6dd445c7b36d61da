"""Hubbub as data sources of Spark: the journal's segments, and the tables of a warehouse."""

from __future__ import annotations

from pyspark.sql import SparkSession

from hubbub.pipeline.sources.journal import JournalSource
from hubbub.pipeline.sources.table import TableSource


def register(spark: SparkSession) -> None:
    """After this, `spark.read.format("hubbub_journal")` and `format("hubbub_table")` work."""
    spark.dataSource.register(JournalSource)
    spark.dataSource.register(TableSource)
