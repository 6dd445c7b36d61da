"""A look at sealed segments before Spark reads them: which are new, and which cannot be taken.

Only footers are read here. `whole` reads everything, for when Spark stumbled over something.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from hubbub.domain.journal import JournalEvent
from hubbub.domain.replacements import Replacement, current

SUFFIX: Final = ".parquet"

TRUNCATED: Final = "truncated"
CORRUPT: Final = "corrupt"
WRONG_TYPES: Final = "wrong_types"

_NEEDED: Final = ("schema_version", "offset", "kind", "at", "hub")
_END: Final = b"PAR1"

_text = (pa.types.is_string, pa.types.is_large_string)
_CHECKS: Final[dict[str, tuple[Callable[[pa.DataType], bool], ...]]] = {
    "str": _text,
    "int": (pa.types.is_int64, pa.types.is_int32),
    "bool": (pa.types.is_boolean,),
    "bytes": (pa.types.is_binary, pa.types.is_large_binary),
    "float": (pa.types.is_float64,),
    "dict[str, str]": (
        lambda kind: pa.types.is_map(kind) and kind.key_type == kind.item_type == pa.string(),
    ),
    "dict[int, int]": (
        lambda kind: (
            pa.types.is_map(kind) and kind.key_type == pa.int32() and kind.item_type == pa.int64()
        ),
    ),
}
_EXPECTED: Final = {
    "schema_version": "int",
    "offset": "int",
    **{name: kind.removesuffix(" | None") for name, kind in JournalEvent.__annotations__.items()},
}


class Segment(msgspec.Struct, frozen=True):
    """A sealed segment as it lies in the journal."""

    name: str
    path: Path
    size: int
    modified: int


def sealed_segments(journal: Path) -> dict[str, Segment]:
    """All that count, by name, as of one moment: not those that a manifest says were replaced, and
    not yet those that wait for their entry in it."""
    found: dict[str, Segment] = {}
    manifest = None
    while manifest != (now := _manifest(journal)):
        manifest, found = now, {}
        paths = {path.name: path for path in (journal / "sealed").glob(f"[!._]*{SUFFIX}")}
        for file in current(paths, manifest):
            with contextlib.suppress(FileNotFoundError):  # replaced meanwhile, or pruned
                stat, name = paths[file].stat(), file.removesuffix(SUFFIX)
                path = paths[file].absolute()
                found[name] = Segment(name, path, stat.st_size, stat.st_mtime_ns)
    return found


def replaced_segments(journal: Path) -> set[str]:
    """Names of segments whose place others have taken, whether or not their files are there."""
    entries = _manifest(journal)
    return {name.removesuffix(SUFFIX) for entry in entries for name in entry.replaced}


def _manifest(journal: Path) -> list[Replacement]:
    paths = sorted((journal / "manifest").glob("[!.]*.json"))
    return [msgspec.json.decode(path.read_bytes(), type=Replacement) for path in paths]


def refusal(segment: Segment) -> tuple[str, str] | None:
    """Why this segment cannot be taken as a whole, as a word and a sentence; None if it can."""
    try:
        with segment.path.open("rb") as file:
            if file.read(4) != _END:
                return CORRUPT, "the file is not Parquet"
            file.seek(-4, 2)
            if file.read(4) != _END:
                return TRUNCATED, "the end of the file is missing"
        schema = pq.read_schema(segment.path)
    except (OSError, pa.ArrowException) as error:
        return CORRUPT, _line(error)
    return _misfit(schema)


def _misfit(schema: pa.Schema) -> tuple[str, str] | None:
    missing = [name for name in _NEEDED if schema.get_field_index(name) < 0]
    if missing:
        return WRONG_TYPES, f"columns are missing: {', '.join(missing)}"
    for name, kind in _EXPECTED.items():
        index = schema.get_field_index(name)
        if index >= 0:
            actual = schema.field(index).type
            if not any(check(actual) for check in _CHECKS[kind]):
                return WRONG_TYPES, f"{name} is {actual}, it should be {kind}"
    return None


def unreadable(segments: Mapping[str, Segment]) -> dict[str, tuple[str, str]]:
    """Reads everything, one batch at a time, checksums too: which segments are damaged inside?"""
    bad = {}
    for segment in segments.values():
        try:
            with pq.ParquetFile(segment.path, page_checksum_verification=True) as file:
                for _ in file.iter_batches(batch_size=4096):
                    pass
        except (OSError, pa.ArrowException) as error:
            bad[segment.name] = CORRUPT, _line(error)
    return bad


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
