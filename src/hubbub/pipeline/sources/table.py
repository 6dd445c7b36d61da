"""Tables of a warehouse as frames: their files read by Spark, or by Arrow in its tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from hubbub.pipeline.catalogue import SCRATCH, TABLES
from hubbub.pipeline.sources.journal import readable_by_spark
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.tables.snapshot import Snapshot, open_snapshot
from hubbub.pipeline.views import VIEWS

FILE = "file"
"""The column with the name of the file that holds a row."""


def frame(spark: SparkSession, snapshot: Snapshot, name: str) -> DataFrame:
    """A materialised table as of the snapshot."""
    return files_frame(spark, snapshot.location, name, [file.path for file in snapshot.files(name)])


def files_frame(
    spark: SparkSession,
    warehouse: Location,
    name: str,
    files: Sequence[str],
    columns: Sequence[str] | None = None,
    with_file: bool = False,
) -> DataFrame:
    """These files of a table, by their names; with the column `file` if that is wanted."""
    schema = {**TABLES, **SCRATCH}[name].schema
    wanted = schema if columns is None else pa.schema([schema.field(each) for each in columns])
    shape = from_arrow_schema(wanted)
    more = [F.col("_metadata.file_name").alias(FILE)] if with_file else []
    if not files:
        empty = [F.lit(None).cast(field.dataType).alias(field.name) for field in shape.fields]
        more = [F.lit("").alias(FILE)] if with_file else []
        return spark.range(1).where(F.lit(False)).select(*empty, *more)
    paths = [f"{warehouse}/{name}/{file}" for file in files]
    if readable_by_spark(spark, paths):
        return spark.read.schema(shape).parquet(*paths).select(*wanted.names, *more)
    spark.dataSource.register(TableSource)
    source = spark.read.format(TableSource.name()).option("table", name)
    rows = source.option("files", "\n".join(files)).load(str(warehouse))
    return rows.select(*wanted.names, *([FILE] if with_file else []))


class TableSource(DataSource):
    """`option("table", name).load(warehouse)` reads a table or a view as of the last round."""

    @classmethod
    def name(cls) -> str:
        return "hubbub_table"

    def schema(self) -> StructType:
        return from_arrow_schema(_shape(self.options["table"], "files" in self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(
            self.options["path"], self.options["table"], self.options.get("files", "").split("\n")
        )


def _shape(table: str, with_file: bool) -> pa.Schema:
    if table in VIEWS:
        return VIEWS[table].schema
    schema = {**TABLES, **SCRATCH}[table].schema
    return schema.append(pa.field(FILE, pa.string())) if with_file else schema


class _Reader(DataSourceReader):
    def __init__(self, warehouse: str, table: str, files: Sequence[str]) -> None:
        self._warehouse = warehouse
        self._table = table
        self._given = bool(files[0])
        self._files = files

    def partitions(self) -> Sequence[InputPartition]:
        if self._table in VIEWS:
            return [InputPartition("")]
        if self._given:
            return [InputPartition(name) for name in self._files]
        return [
            InputPartition(file.path) for file in open_snapshot(self._warehouse).files(self._table)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        shape = _shape(self._table, self._given)
        if not partition.value:
            rows = open_snapshot(self._warehouse).read(self._table)
            yield from rows.cast(shape).to_batches()
            return
        files, path = Location(f"{self._warehouse}/{self._table}/{partition.value}").open()
        with pq.ParquetFile(files.open_input_file(path)) as file:
            for batch in file.iter_batches(use_threads=False):
                rows = pa.Table.from_batches([batch])
                if self._given:
                    rows = rows.append_column(FILE, pa.repeat(partition.value, len(rows)))
                yield from rows.select(shape.names).cast(shape).to_batches()
