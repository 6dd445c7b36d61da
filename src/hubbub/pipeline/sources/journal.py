"""The journal as frames: segments read by Spark's own Parquet reader, or by Arrow in its tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from hubbub.pipeline.sources.segments import SUFFIX, Segment, sealed_segments
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.transforms.events import EVENTS

SEGMENT: Final = "segment"
COLUMNS: Final = pa.schema([*EVENTS, pa.field(SEGMENT, pa.string())])
"""Of the frame: an event, and the segment that holds it."""
_NATIVE: Final = {
    "hdfs": "org.apache.hadoop.hdfs.DistributedFileSystem",
    "s3a": "org.apache.hadoop.fs.s3a.S3AFileSystem",
}
_STREAMED: Final = 8
"""Segments of one micro-batch of a stream."""


def events(spark: SparkSession, files: Sequence[str], columns: Sequence[str]) -> DataFrame:
    """The events of these segments, with these columns and `segment`. Spark reads the files itself
    where it can open them, which costs a tenth; else the source `hubbub_journal` does."""
    if readable_by_spark(spark, files):
        wanted = from_arrow_schema(pa.schema([EVENTS.field(name) for name in columns]))
        name = F.expr(f"left(_metadata.file_name, length(_metadata.file_name) - {len(SUFFIX)})")
        return spark.read.schema(wanted).parquet(*files).select(*columns, name.alias(SEGMENT))
    spark.dataSource.register(JournalSource)
    source = spark.read.format(JournalSource.name()).option("files", "\n".join(files))
    return source.load().select(*columns, SEGMENT)


def readable_by_spark(spark: SparkSession, files: Iterable[str]) -> bool:
    """Local paths, and those whose Hadoop connector is on the class path."""
    schemes = {file.partition("://")[0] if "://" in file else "" for file in files}
    return all(scheme in ("", "file") or _has_connector(spark, scheme) for scheme in schemes)


def _has_connector(spark: SparkSession, scheme: str) -> bool:
    if scheme not in _NATIVE:
        return False
    jvm: Any = spark._jvm
    try:
        jvm.java.lang.Class.forName(_NATIVE[scheme])
    except Exception:  # noqa: BLE001 - py4j wraps ClassNotFoundException in its own types
        return False
    return True


class Split(msgspec.Struct, frozen=True):
    """A row group of a segment, the least that a task reads."""

    file: str
    group: int
    rows: int = 0

    @property
    def segment(self) -> str:
        return PurePosixPath(self.file).name.removesuffix(SUFFIX)


def read_split(split: Split) -> pa.Table:
    """The events, with the columns `COLUMNS`; one that an older segment does not have is null."""
    files, path = Location(split.file).open()
    with pq.ParquetFile(files.open_input_file(path), page_checksum_verification=True) as segment:
        there = set(segment.schema_arrow.names)
        known = [name for name in EVENTS.names if name in there]
        rows = segment.read_row_group(split.group, columns=known, use_threads=False)
    columns = [
        rows[field.name].cast(field.type)
        if field.name in there
        else pa.nulls(len(rows), field.type)
        for field in EVENTS
    ]
    return pa.Table.from_arrays([*columns, pa.repeat(split.segment, len(rows))], schema=COLUMNS)


class JournalSource(DataSource):
    """`load(path)` reads the journal at a folder or URL; the option `files` names segments."""

    @classmethod
    def name(cls) -> str:
        return "hubbub_journal"

    def schema(self) -> StructType:
        return from_arrow_schema(COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(_files(self.options))

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:
        return _StreamReader(self.options["path"])


def _files(options: Mapping[str, str]) -> list[str]:
    if "files" in options:
        return options["files"].split("\n")
    return [segment.path for segment in sealed_segments(Location(options["path"])).values()]


class _Reader(DataSourceReader):
    def __init__(self, files: Sequence[str]) -> None:
        self._files = files

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(split) for file in self._files for split in _splits(file)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from read_split(partition.value).to_batches()


def _splits(file: str) -> list[Split]:
    files, path = Location(file).open()
    with files.open_input_file(path) as opened:
        return [Split(file, group) for group in range(pq.read_metadata(opened).num_row_groups)]


class _StreamReader(SimpleDataSourceStreamReader):
    """New segments in the order of their names; the offset is the list of those that were read."""

    def __init__(self, path: str) -> None:
        self._path = path

    def initialOffset(self) -> dict[str, Any]:
        return {"read": []}

    def read(self, start: dict[str, Any]) -> tuple[Iterator[tuple[Any, ...]], dict[str, Any]]:
        segments = sealed_segments(Location(self._path))
        new = sorted(set(segments) - set(start["read"]))[:_STREAMED]
        return self._rows(segments, new), {"read": [*start["read"], *new]}

    def readBetweenOffsets(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Iterator[tuple[Any, ...]]:
        segments = sealed_segments(Location(self._path))
        return self._rows(segments, sorted(set(end["read"]) - set(start["read"])))

    def commit(self, end: dict[str, Any]) -> None:
        """Segments stay where they are."""

    def _rows(
        self, segments: Mapping[str, Segment], names: Sequence[str]
    ) -> Iterator[tuple[Any, ...]]:
        """Not a generator: Spark copies the iterator."""
        return iter([row for name in names for row in _segment_rows(segments[name])])


def _segment_rows(segment: Segment) -> Iterator[tuple[Any, ...]]:
    for split in _splits(segment.path):
        rows = read_split(split)
        columns = (column.to_pylist(maps_as_pydicts="strict") for column in rows.columns)
        yield from zip(*columns, strict=True)
