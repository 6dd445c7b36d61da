"""Packages the dependencies of Spark workers into one archive that Spark distributes.

The archive contains this package and the packages that its tasks import, as a folder of modules.
Spark unpacks it beside each executor (`spark.archives`), where it precedes the machine's own
modules. The workers' Python must have the same minor version and platform as the Python that built
it.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import tarfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Final

from hubbub.pipeline.errors import PipelineError

DISTRIBUTIONS: Final = (
    *("msgspec", "numpy", "pyarrow", "pandas", "python-dateutil", "pytz", "tzdata", "six"),
    *("deltalake", "arro3-core", "duckdb"),
)
"""Distributions to package; Spark itself is on the cluster."""
FOLDER: Final = "hubbub_pipeline"
"""The name of the unpacked archive on an executor."""
_COMPRESSION: Final = 1
"""Fast compression: the archive is mostly machine code, which the best level compresses a tenth
better for three times the CPU time."""
_UNUSED_FOLDERS: Final = frozenset(("tests", "include", "__pycache__"))
_UNUSED_SUFFIXES: Final = frozenset((".pyc", ".pyi", ".pxd", ".pyx", ".h", ".hpp"))


def build(target: Path) -> int:
    """Writes the archive and returns its size in bytes. The result is reproducible.

    Raises `PipelineError` if a package is not installed.
    """
    draft = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    try:
        with (
            draft.open("wb") as raw,
            gzip.GzipFile("", "wb", _COMPRESSION, raw, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w") as archive,
        ):
            for name, path in sorted(_modules()):
                _add(archive, name, path)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    return target.stat().st_size


def settings(archive: Path) -> dict[str, str]:
    """The Spark settings that make executors use the archive."""
    return {
        "spark.archives": f"{archive.resolve().as_uri()}#{FOLDER}",
        "spark.executorEnv.PYTHONPATH": f"./{FOLDER}",
        "spark.pyspark.python": f"python{sys.version_info.major}.{sys.version_info.minor}",
        "spark.pyspark.driver.python": sys.executable,
    }


def _modules() -> Iterator[tuple[str, Path]]:
    """Names inside the archive, and their files."""
    package = Path(str(files("hubbub")))
    for path in package.rglob("*"):
        name = Path("hubbub", path.relative_to(package))
        if path.is_file() and _is_used(name):
            yield name.as_posix(), path
    for package_name in DISTRIBUTIONS:
        try:
            found = distribution(package_name).files or ()
        except PackageNotFoundError:
            raise PipelineError(
                f"{package_name} is not installed; install Hubbub with its extra: hubbub[pipeline]"
            ) from None
        yield from ((each.as_posix(), Path(str(each.locate()))) for each in found if _is_used(each))


def _is_used(name: PurePath) -> bool:
    """Excludes scripts and licences outside the module folder, whose names begin with `..`."""
    unused = name.parts[0] == ".." or not _UNUSED_FOLDERS.isdisjoint(name.parts)
    return not unused and name.suffix not in _UNUSED_SUFFIXES


def _add(archive: tarfile.TarFile, name: str, path: Path) -> None:
    content = path.read_bytes()
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    entry.mode = 0o755 if path.suffix == ".so" or ".so." in path.name else 0o644
    archive.addfile(entry, io.BytesIO(content))
