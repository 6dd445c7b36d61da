"""Reading committed tables with Spark: exactly the files that the state names."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from hubbub.pipeline.schemas import SILVER
from hubbub.pipeline.state import Partition
from hubbub.pipeline.warehouse import Warehouse


def read_table(
    spark: SparkSession,
    warehouse: Warehouse,
    table: str,
    schema: StructType,
    partitions: Iterable[Partition] | None = None,
) -> DataFrame:
    """A table, or some partitions of it, with the columns of the schema."""
    files = warehouse.files(table, partitions)
    if not files:
        return no_rows(spark, schema)
    return read_files(spark, warehouse.folder(table), files, schema)


def read_files(
    spark: SparkSession, folder: Path, files: Iterable[Path], schema: StructType
) -> DataFrame:
    """Files below a folder; partitions are folders in it."""
    return (
        spark.read.schema(schema)
        .option("basePath", str(folder))
        .parquet(*(str(path) for path in files))
        .select(*schema.names)
    )


def read_silver(
    spark: SparkSession,
    warehouse: Warehouse,
    table: str,
    hours: Iterable[Partition] | None = None,
) -> DataFrame:
    return read_table(spark, warehouse, table, SILVER[table], hours)


def no_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """An empty table that Spark knows to be empty, and leaves out of what it does."""
    columns = [F.lit(None).cast(field.dataType).alias(field.name) for field in schema.fields]
    return spark.range(1).where(F.lit(False)).select(*columns)
