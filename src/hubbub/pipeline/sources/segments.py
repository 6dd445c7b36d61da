"""The sealed segments of a journal, in a folder or an object store, and which cannot be taken.

Only footers are read here; `unreadable` reads everything, for when Spark stumbled over something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from hubbub.domain.journal import JournalEvent
from hubbub.domain.replacements import Replacement, current
from hubbub.pipeline.tables.location import Location

SUFFIX: Final = ".parquet"

TRUNCATED: Final = "truncated"
CORRUPT: Final = "corrupt"
WRONG_TYPES: Final = "wrong_types"

_NEEDED: Final = ("schema_version", "offset", "kind", "at", "hub")
_MAGIC: Final = b"PAR1"

_CHECKS: Final[dict[str, tuple[Callable[[pa.DataType], bool], ...]]] = {
    "str": (pa.types.is_string, pa.types.is_large_string),
    "int": (pa.types.is_int64, pa.types.is_int32),
    "bool": (pa.types.is_boolean,),
    "bytes": (pa.types.is_binary, pa.types.is_large_binary),
    "float": (pa.types.is_float64,),
    "dict[str, str]": (lambda kind: kind == pa.map_(pa.string(), pa.string()),),
    "dict[int, int]": (lambda kind: kind == pa.map_(pa.int32(), pa.int64()),),
}
_EXPECTED: Final = {
    "schema_version": "int",
    "offset": "int",
    **{name: kind.removesuffix(" | None") for name, kind in JournalEvent.__annotations__.items()},
}


class Segment(msgspec.Struct, frozen=True):
    """A sealed segment as it lies in the journal. `path` is a path or a URL."""

    name: str
    path: str
    size: int
    modified: int


class Refusal(msgspec.Struct, frozen=True):
    """Why a segment cannot be taken as a whole."""

    word: str
    sentence: str


def sealed_segments(journal: Location) -> dict[str, Segment]:
    """All that count, by name, as of one moment: not those that a manifest says were replaced, and
    not yet those that wait for their entry in it."""
    manifest, found = None, {}
    while manifest != (now := _manifest(journal)):
        manifest, found = now, _sealed(journal)
    assert manifest is not None
    return {name.removesuffix(SUFFIX): found[name] for name in current(sorted(found), manifest)}


def replaced_segments(journal: Location) -> set[str]:
    """Names of segments whose place others have taken, whether or not their files are there."""
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


def refusal(segment: Segment) -> Refusal | None:
    """None if the segment can be taken."""
    files, path = Location(segment.path).open()
    try:
        with files.open_input_file(path) as file:
            if file.read(4) != _MAGIC:
                return Refusal(CORRUPT, "the file is not Parquet")
            file.seek(max(segment.size - 4, 0))
            if file.read(4) != _MAGIC:
                return Refusal(TRUNCATED, "the end of the file is missing")
            file.seek(0)
            schema = pq.read_schema(file)
    except (OSError, pa.ArrowException) as error:
        return Refusal(CORRUPT, _line(error))
    return _misfit(schema)


class Footer(msgspec.Struct, frozen=True):
    """What is known of a segment without reading its rows. Times are microseconds since 1970, None
    where the writer kept no statistics."""

    rows: int
    earliest: int | None
    latest: int | None
    groups: tuple[int, ...]
    """The rows of each row group."""


def footer(segment: Segment) -> Footer:
    files, path = Location(segment.path).open()
    with files.open_input_file(path) as file:
        metadata = pq.read_metadata(file)
    place = metadata.schema.names.index("at")
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    rows = tuple(group.num_rows for group in groups)
    bounds = [group.column(place).statistics for group in groups]
    if not bounds or not all(one is not None and one.has_min_max for one in bounds):
        return Footer(metadata.num_rows, None, None, rows)
    least, greatest = min(one.min for one in bounds), max(one.max for one in bounds)
    return Footer(metadata.num_rows, least, greatest, rows)


def _misfit(schema: pa.Schema) -> Refusal | None:
    missing = [name for name in _NEEDED if schema.get_field_index(name) < 0]
    if missing:
        return Refusal(WRONG_TYPES, f"columns are missing: {', '.join(missing)}")
    for name, kind in _EXPECTED.items():
        index = schema.get_field_index(name)
        if index >= 0:
            actual = schema.field(index).type
            if not any(check(actual) for check in _CHECKS[kind]):
                return Refusal(WRONG_TYPES, f"{name} is {actual}, it should be {kind}")
    return None


def unreadable(segments: Iterable[Segment]) -> dict[str, Refusal]:
    """Reads everything, one batch at a time, checksums too: which segments are damaged inside?"""
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
            bad[segment.name] = Refusal(CORRUPT, _line(error))
    return bad


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
