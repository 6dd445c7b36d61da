"""Tables of a warehouse as frames: their files read by Spark, or by Arrow in its tasks."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from hubbub.domain.replacements import Lineage
from hubbub.pipeline.catalogue import BY_SEGMENT, SCRATCH, TABLES
from hubbub.pipeline.errors import PipelineError
from hubbub.pipeline.models import MODELS
from hubbub.pipeline.sources.journal import readable_by_spark
from hubbub.pipeline.sources.pruning import pruning
from hubbub.pipeline.sources.segments import SUFFIX, with_manifest
from hubbub.pipeline.sources.streaming import SegmentStream
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.tables.snapshot import Snapshot, open_snapshot, row_filter
from hubbub.pipeline.views import VIEWS

FILE = "file"
"""The column with the name of the file that contains a row."""
_AT_ONCE_ROWS = 65_536


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
    """The given files of a table, by name; optionally with the column `file`."""
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
    source = source.option("columns", ",".join((*wanted.names, *([FILE] if with_file else []))))
    return source.option("files", "\n".join(files)).load(str(warehouse))


class TableSource(DataSource):
    """`option("table", name).load(warehouse)` reads a table or a view as of the last round; the
    options of `pruning` select columns and rows."""

    @classmethod
    def name(cls) -> str:
        return "hubbub_table"

    def schema(self) -> StructType:
        return from_arrow_schema(pruning(self.options, _shape(self.options)).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _TableReader(self.options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _TableStreamReader(self.options)


def _shape(options: Mapping[str, str]) -> pa.Schema:
    table = options.get("table", "")
    known = {**TABLES, **SCRATCH}
    if table not in known and table in MODELS:
        return MODELS[table].schema
    if table in VIEWS:
        return VIEWS[table].schema
    if table not in known:
        names = ", ".join(Snapshot.names)
        raise PipelineError(f'there is no table {table!r}; option("table", …) takes one of {names}')
    schema = known[table].schema
    return schema.append(pa.field(FILE, pa.string())) if "files" in options else schema


class _TableReader(DataSourceReader):
    """Each file is a split; a view is evaluated in one task. Files and row groups whose statistics
    exclude selected rows are not read."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._shape = _shape(options)
        self._wanted = pruning(options, self._shape)
        self._warehouse = options["path"]
        self._table = options["table"]
        self._files = options["files"].split("\n") if "files" in options else None
        time = TABLES[self._table].time if self._table in TABLES else None
        self._where = row_filter(self._shape, time, self._wanted.window, self._wanted.hub)

    def partitions(self) -> Sequence[InputPartition]:
        if self._files is not None:
            return [InputPartition(name) for name in self._files]
        snapshot = open_snapshot(self._warehouse, self._wanted.round)
        if self._table not in TABLES:
            return [InputPartition(None)]
        if snapshot.delta(self._table) is None:
            return []
        parts = snapshot.table(self._table).get_fragments(self._where)
        return [InputPartition(part.path) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        names, window = self._wanted.schema.names, self._wanted.window
        if partition.value is None:
            snapshot = open_snapshot(self._warehouse, self._wanted.round)
            read = partial(snapshot.read, self._table, columns=names)
            rows = read(since=window.since, until=window.until, hub=self._wanted.hub)
            return iter(rows.to_batches())
        return self.rows(partition.value)

    def rows(self, file: str, *more: pc.Expression) -> Iterator[pa.RecordBatch]:
        """The selected rows of a file that meet the conditions."""
        wanted = [each for each in (self._where, *more) if each is not None]
        where = reduce(operator.and_, wanted) if wanted else None
        place, names = f"{self._warehouse}/{self._table}", self._wanted.schema.names
        return file_batches(place, file, self._shape, columns=names, filter=where)


class _TableStreamReader(SegmentStream[str]):
    """The rows of segments ingested by rounds. The option `journal` names the journal whose
    manifest lists replacements; without it, all segments count as new."""

    def __init__(self, options: Mapping[str, str]) -> None:
        wanted = pruning(options, _shape(options))
        super().__init__(wanted.most)
        if wanted.round is not None:
            raise PipelineError("a stream follows all rounds; read one round as a batch")
        self._table = options.get("table", "")
        if self._table not in BY_SEGMENT:
            raise PipelineError(
                f"the table {self._table!r} is no stream, since rounds change rows of it; there are"
                f" streams of {', '.join(BY_SEGMENT)}"
            )
        self._warehouse = options["path"]
        self._journal = options.get("journal")
        self._reader = _TableReader(options)

    def state(self) -> tuple[Mapping[str, str], Lineage]:
        manifest = with_manifest(Location(self._journal))[1] if self._journal else []
        known = open_snapshot(self._warehouse).read("segments", columns=["segment", "refused"])
        taken = known.filter(pc.is_null(known["refused"]))["segment"].to_pylist()
        return {name: name for name in taken}, Lineage(manifest, SUFFIX)

    def splits(self, segments: Sequence[str]) -> list[InputPartition]:
        files = open_snapshot(self._warehouse).files(self._table)
        return [InputPartition((file.path, segments)) for file in files if file.may_hold(segments)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        file, segments = partition.value
        return self._reader.rows(file, pc.field("segment").isin(segments))


def file_batches(table: str, file: str, schema: pa.Schema, **more: Any) -> Iterator[pa.RecordBatch]:
    """The rows of a file of the table; columns that it lacks are null."""
    files, path = Location(f"{table}/{file}").open()
    named = pc.field(FILE) == file if FILE in schema.names else None
    part = ds.ParquetFileFormat().make_fragment(path, files, partition_expression=named)
    found: Iterator[pa.RecordBatch] = part.to_batches(
        schema, use_threads=False, batch_readahead=1, batch_size=_AT_ONCE_ROWS, **more
    )
    return found
