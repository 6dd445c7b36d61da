"""The sealed segments of a journal in a folder or an object store, and checks of their validity.

Only footers are read here; `unreadable` reads everything, after Spark failed on a segment.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from hubbub.domain.replacements import Replacement, current
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.tables.staging import bounds
from hubbub.pipeline.transforms.events import EVENTS

SUFFIX: Final = ".parquet"

TRUNCATED: Final = "truncated"
CORRUPT: Final = "corrupt"
WRONG_TYPES: Final = "wrong_types"

_NEEDED: Final = ("schema_version", "offset", "kind", "at", "hub")
_MAGIC: Final = b"PAR1"

_ALSO_TAKEN: Final = {
    pa.string(): pa.large_string(),
    pa.binary(): pa.large_binary(),
    pa.int64(): pa.int32(),
    pa.int32(): pa.int64(),
}
"""Column types used by other writers of segments."""


class Segment(msgspec.Struct, frozen=True):
    """A sealed segment in the journal. `path` is a path or a URL."""

    name: str
    path: str
    size: int
    modified: int


class SegmentRejection(msgspec.Struct, frozen=True):
    """Why a whole segment is rejected."""

    word: str
    sentence: str
    duplicate_of: str | None = None


def sealed_segments(journal: Location) -> dict[str, Segment]:
    """The current segments by name, as of one moment: without those that a manifest replaced, and
    without those that wait for their entry in it."""
    return with_manifest(journal)[0]


def with_manifest(journal: Location) -> tuple[dict[str, Segment], list[Replacement]]:
    """The current segments and the manifest, as of one moment."""
    manifest, found = None, {}
    while manifest != (now := _manifest(journal)):
        manifest, found = now, _sealed(journal)
    assert manifest is not None
    there = {name.removesuffix(SUFFIX): found[name] for name in current(sorted(found), manifest)}
    return there, manifest


def replaced_segments(journal: Location) -> set[str]:
    """Names of replaced segments, whether or not their files still exist."""
    return {name.removesuffix(SUFFIX) for one in _manifest(journal) for name in one.replaced}


def _sealed(journal: Location) -> dict[str, Segment]:
    return {
        info.base_name: Segment(
            info.base_name.removesuffix(SUFFIX),
            f"{journal}/sealed/{info.base_name}",
            info.size,
            info.mtime_ns or 0,
        )
        for info in _listed(journal / "sealed", SUFFIX)
    }


def _manifest(journal: Location) -> list[Replacement]:
    found = []
    files, _ = journal.open()
    for info in sorted(_listed(journal / "manifest", ".json"), key=lambda info: info.base_name):
        with files.open_input_stream(info.path) as stream:
            found.append(msgspec.json.decode(stream.read(), type=Replacement))
    return found


def _listed(folder: Location, suffix: str) -> Iterable[fs.FileInfo]:
    files, path = folder.open()
    infos = files.get_file_info(fs.FileSelector(path, allow_not_found=True))
    return [
        info
        for info in infos
        if info.is_file and info.base_name.endswith(suffix) and info.base_name[0] not in "._"
    ]


def refusal(segment: Segment) -> SegmentRejection | None:
    """None if the segment is valid."""
    files, path = Location(segment.path).open()
    try:
        with files.open_input_file(path) as file:
            if file.read(4) != _MAGIC:
                return SegmentRejection(CORRUPT, "the file is not Parquet")
            file.seek(max(segment.size - 4, 0))
            if file.read(4) != _MAGIC:
                return SegmentRejection(TRUNCATED, "the end of the file is missing")
            file.seek(0)
            schema = pq.read_schema(file)
    except (OSError, pa.ArrowException) as error:
        return SegmentRejection(CORRUPT, _line(error))
    return _misfit(schema)


class Footer(msgspec.Struct, frozen=True):
    """A segment's metadata, known without reading rows. Times are microseconds since 1970, None if
    the writer kept no statistics."""

    earliest: int | None
    latest: int | None
    groups: tuple[int, ...]
    """The number of rows in each row group."""


def footer(segment: Segment) -> Footer:
    files, path = Location(segment.path).open()
    with files.open_input_file(path) as file:
        metadata = pq.read_metadata(file)
    groups = range(metadata.num_row_groups)
    rows = tuple(metadata.row_group(number).num_rows for number in groups)
    least, greatest = bounds(metadata, "at") or (None, None)
    return Footer(least, greatest, rows)


def _misfit(schema: pa.Schema) -> SegmentRejection | None:
    missing = [name for name in _NEEDED if schema.get_field_index(name) < 0]
    if missing:
        return SegmentRejection(WRONG_TYPES, f"columns are missing: {', '.join(missing)}")
    for wanted in EVENTS:
        index = schema.get_field_index(wanted.name)
        actual = wanted.type if index < 0 else schema.field(index).type
        if actual not in (wanted.type, _ALSO_TAKEN.get(wanted.type)):
            return SegmentRejection(
                WRONG_TYPES, f"{wanted.name} is {actual}, it should be {wanted.type}"
            )
    return None


def unreadable(segments: Iterable[Segment]) -> dict[str, SegmentRejection]:
    """Reads everything, one batch at a time, including checksums; returns the damaged segments."""
    bad = {}
    for segment in segments:
        files, path = Location(segment.path).open()
        try:
            with (
                files.open_input_file(path) as opened,
                pq.ParquetFile(opened, page_checksum_verification=True) as file,
            ):
                for _ in file.iter_batches(batch_size=4096):
                    pass
        except (OSError, pa.ArrowException) as error:
            bad[segment.name] = SegmentRejection(CORRUPT, _line(error))
    return bad


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
