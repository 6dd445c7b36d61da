"""The journal as frames, read by Spark's own Parquet reader, or by Arrow in its tasks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from pyspark.sql.types import StructType

from hubbub.domain.replacements import Lineage
from hubbub.pipeline.errors import PipelineError
from hubbub.pipeline.sources import segments
from hubbub.pipeline.sources.pruning import Pruning, pruning
from hubbub.pipeline.sources.segments import SUFFIX, Segment, sealed_segments
from hubbub.pipeline.sources.streaming import SegmentStream
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.tables.snapshot import row_filter
from hubbub.pipeline.transforms.events import EVENTS

SEGMENT: Final = "segment"
COLUMNS: Final = pa.schema([*EVENTS, pa.field(SEGMENT, pa.string())])
"""The columns of the frame: an event, and the segment that contains it."""
_NATIVE: Final = {
    "hdfs": "org.apache.hadoop.hdfs.DistributedFileSystem",
    "s3a": "org.apache.hadoop.fs.s3a.S3AFileSystem",
}
_FORMAT: Final = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)


def events(spark: SparkSession, files: Sequence[str], columns: Sequence[str]) -> DataFrame:
    """The events of these segments, with these columns and `segment`. Spark reads the files itself
    if it can open them, at a tenth of the cost; otherwise the source `hubbub_journal` does."""
    if readable_by_spark(spark, files):
        wanted = from_arrow_schema(pa.schema([EVENTS.field(name) for name in columns]))
        name = F.expr(f"left(_metadata.file_name, length(_metadata.file_name) - {len(SUFFIX)})")
        return spark.read.schema(wanted).parquet(*files).select(*columns, name.alias(SEGMENT))
    spark.dataSource.register(JournalSource)
    source = spark.read.format(JournalSource.name()).option("files", "\n".join(files))
    return source.option("columns", ",".join((*columns, SEGMENT))).load()


def readable_by_spark(spark: SparkSession, files: Iterable[str]) -> bool:
    """Whether all files are local, or their Hadoop connector is on the class path."""
    schemes = {file.partition("://")[0] if "://" in file else "" for file in files}
    return all(scheme in ("", "file") or _has_connector(spark, scheme) for scheme in schemes)


def _has_connector(spark: SparkSession, scheme: str) -> bool:
    jvm: Any = spark._jvm
    with contextlib.suppress(Exception):  # py4j wraps ClassNotFoundException in its own types
        jvm.java.lang.Class.forName(_NATIVE[scheme])
        return True
    return False


class Split(msgspec.Struct, frozen=True):
    """A row group of a segment, the smallest unit that a task reads."""

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
    """The selected events; a column that an older segment lacks is null."""
    part = _fragment(split.file, [split.group])
    return part.to_table(schema=COLUMNS, columns=list(columns), filter=where, use_threads=False)


def _fragment(file: str, groups: Sequence[int] | None = None) -> ds.ParquetFileFragment:
    files, path = Location(file).open()
    named = pc.field(SEGMENT) == segment_of(file)
    return _FORMAT.make_fragment(path, files, partition_expression=named, row_groups=groups)


class JournalSource(DataSource):
    """`load(path)` reads the journal at a folder or URL; the option `files` names segments, and the
    options of `pruning` select columns and rows."""

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
        return _StreamReader(self.options["path"], pruning(self.options, COLUMNS))


class _Reader(DataSourceReader):
    def __init__(self, wanted: Pruning, files: Sequence[str] = ()) -> None:
        self._files = files
        self._columns = wanted.schema.names
        self._where = row_filter(COLUMNS, "at", wanted.window, wanted.hub)

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(split) for file in self._files for split in self.splits(file)]

    def splits(self, file: str) -> list[Split]:
        """Row groups that may contain selected rows, by their statistics. Raises
        `PipelineError`."""
        try:
            parts = _fragment(file).split_by_row_group(self._where, schema=COLUMNS)
            return [Split(file, part.row_groups[0].id) for part in parts]
        except (OSError, pa.ArrowException) as error:
            raise PipelineError(
                f"{file} cannot be read ({error}); `hubbub pipeline run` sets damaged segments"
                " aside, and the table `quarantine` names them"
            ) from error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """If there are no partitions, Spark requests one with the value None."""
        split = partition.value
        return iter(read_split(split, self._columns, self._where).to_batches() if split else ())


class _StreamReader(SegmentStream[Segment]):
    def __init__(self, path: str, wanted: Pruning) -> None:
        super().__init__(wanted.most)
        self._journal = path
        self._reader = _Reader(wanted)

    def state(self) -> tuple[Mapping[str, Segment], Lineage]:
        found, manifest = segments.with_manifest(Location(self._journal))
        return found, Lineage(manifest, SUFFIX)

    def splits(self, segments: Sequence[Segment]) -> list[InputPartition]:
        splits = (split for segment in segments for split in self._reader.splits(segment.path))
        return [InputPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reader.read(partition)
