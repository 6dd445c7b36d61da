"""The journal as frames: segments read by Spark's own Parquet reader, or by Arrow in its tasks."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec
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
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from hubbub.domain.replacements import Lineage
from hubbub.pipeline.errors import PipelineError
from hubbub.pipeline.sources import segments
from hubbub.pipeline.sources.pruning import Pruning, pruning
from hubbub.pipeline.sources.segments import SUFFIX, Segment, sealed_segments
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.tables.snapshot import row_filter
from hubbub.pipeline.transforms.events import EVENTS

SEGMENT: Final = "segment"
COLUMNS: Final = pa.schema([*EVENTS, pa.field(SEGMENT, pa.string())])
"""Of the frame: an event, and the segment that holds it."""
_NATIVE: Final = {
    "hdfs": "org.apache.hadoop.hdfs.DistributedFileSystem",
    "s3a": "org.apache.hadoop.fs.s3a.S3AFileSystem",
}
_STREAMED: Final = 64
"""Segments of one micro-batch of a stream, where the option `maxFilesPerTrigger` is not set."""
_FORMAT: Final = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)


def events(spark: SparkSession, files: Sequence[str], columns: Sequence[str]) -> DataFrame:
    """The events of these segments, with these columns and `segment`. Spark reads the files itself
    where it can open them, which costs a tenth; else the source `hubbub_journal` does."""
    if readable_by_spark(spark, files):
        wanted = from_arrow_schema(pa.schema([EVENTS.field(name) for name in columns]))
        name = F.expr(f"left(_metadata.file_name, length(_metadata.file_name) - {len(SUFFIX)})")
        return spark.read.schema(wanted).parquet(*files).select(*columns, name.alias(SEGMENT))
    spark.dataSource.register(JournalSource)
    source = spark.read.format(JournalSource.name()).option("files", "\n".join(files))
    return source.option("columns", ",".join((*columns, SEGMENT))).load()


def readable_by_spark(spark: SparkSession, files: Iterable[str]) -> bool:
    """Local paths, and those whose Hadoop connector is on the class path."""
    schemes = {file.partition("://")[0] if "://" in file else "" for file in files}
    return all(scheme in ("", "file") or _has_connector(spark, scheme) for scheme in schemes)


def _has_connector(spark: SparkSession, scheme: str) -> bool:
    jvm: Any = spark._jvm
    with contextlib.suppress(Exception):  # py4j wraps ClassNotFoundException in its own types
        jvm.java.lang.Class.forName(_NATIVE[scheme])
        return True
    return False


class Split(msgspec.Struct, frozen=True):
    """A row group of a segment, the least that a task reads."""

    file: str
    group: int
    rows: int = 0

    @property
    def segment(self) -> str:
        return segment_of(self.file)


def segment_of(file: str) -> str:
    return PurePosixPath(file).name.removesuffix(SUFFIX)


def read_split(
    split: Split, columns: Sequence[str] = COLUMNS.names, where: pc.Expression | None = None
) -> pa.Table:
    """The events that are wanted; a column that an older segment does not have is null."""
    part = _fragment(split.file, [split.group])
    return part.to_table(schema=COLUMNS, columns=list(columns), filter=where, use_threads=False)


def _fragment(file: str, groups: Sequence[int] | None = None) -> ds.ParquetFileFragment:
    files, path = Location(file).open()
    named = pc.field(SEGMENT) == segment_of(file)
    return _FORMAT.make_fragment(path, files, partition_expression=named, row_groups=groups)


class JournalSource(DataSource):
    """`load(path)` reads the journal at a folder or URL; the option `files` names segments, and the
    options of `pruning` what is wanted of them."""

    @classmethod
    def name(cls) -> str:
        return "hubbub_journal"

    def schema(self) -> StructType:
        return from_arrow_schema(pruning(self.options, COLUMNS).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        wanted, named = pruning(self.options, COLUMNS), self.options.get("files")
        if named is not None:
            return _Reader(wanted, named.split("\n"))
        found = sealed_segments(Location(self.options["path"])).values()
        return _Reader(wanted, [segment.path for segment in found])

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        most = int(self.options.get("maxFilesPerTrigger", _STREAMED))
        return _StreamReader(self.options["path"], pruning(self.options, COLUMNS), most)


class _Reader(DataSourceReader):
    def __init__(self, wanted: Pruning, files: Sequence[str] = ()) -> None:
        self._files = files
        self._columns = wanted.schema.names
        self._where = row_filter(COLUMNS, "at", wanted.window, wanted.hub)

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(split) for file in self._files for split in self.splits(file)]

    def splits(self, file: str) -> list[Split]:
        """Row groups that may hold wanted rows, by their statistics. Raises `PipelineError`."""
        try:
            parts = _fragment(file).split_by_row_group(self._where, schema=COLUMNS)
            return [Split(file, part.row_groups[0].id) for part in parts]
        except (OSError, pa.ArrowException) as error:
            raise PipelineError(
                f"{file} cannot be read ({error}); `hubbub pipeline run` sets damaged segments"
                " aside, and the table `quarantine` names them"
            ) from error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return iter(read_split(partition.value, self._columns, self._where).to_batches())


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """New segments in the order of their names. The offset names those that were read and are still
    there; names are never used again. Segments that took the place of others count as read where
    the others were. Of one that took the place of segments of which only some were read, all events
    are given, some of them again."""

    def __init__(self, path: str, wanted: Pruning, most: int) -> None:
        self._journal = path
        self._reader = _Reader(wanted)
        self._most = most
        self._until: Collection[str] | None = None

    def initialOffset(self) -> dict[str, Any]:
        return {"read": []}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxFiles(self._most)

    def prepareForTriggerAvailableNow(self) -> None:
        self._until = self._state()[0]

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        there, lineage = self._state()
        before = set(start["read"])
        known = {name for name in there if lineage.covers(before, name)}
        new = sorted(there.keys() - known)
        if self._until is not None:
            new = [name for name in new if name in self._until]
        if isinstance(limit, ReadMaxFiles):
            new = new[: limit.max_files]
        return {"read": sorted([*known, *new])} if new else start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Of a batch that is read once more after a crash, a segment may have been replaced."""
        there, lineage = self._state()
        before = set(start["read"])
        names = [name for name in end["read"] if not lineage.covers(before, name)]
        new = {found for name in names for found in lineage.successors(name)}
        paths = [there[name].path for name in sorted(new & there.keys())]
        return [InputPartition(split) for path in paths for split in self._reader.splits(path)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reader.read(partition)

    def _state(self) -> tuple[dict[str, Segment], Lineage]:
        found, manifest = segments.with_manifest(Location(self._journal))
        return found, Lineage(manifest, SUFFIX)
