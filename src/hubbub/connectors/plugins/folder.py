"""The folder of plugins: one file per command, named after it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from hubbub.domain.plugins.findings import MAX_SOURCE_BYTES, Violation
from hubbub.domain.plugins.names import name_problem

MAX_FILES = 1000


class PluginFile(msgspec.Struct, frozen=True):
    name: str
    """In lower case: lookups ignore case."""
    path: str
    source: bytes


class Folder(msgspec.Struct, frozen=True):
    """The files that were read, and those rejected before analysis, by path."""

    files: tuple[PluginFile, ...] = ()
    refused: tuple[tuple[str, Violation], ...] = ()


def read_folder(path: Path) -> Folder:
    """Blocking. Files that begin with `_` or `.` are skipped. Raises `OSError` if the folder cannot
    be listed."""
    files: dict[str, PluginFile] = {}
    refused: list[tuple[str, Violation]] = []
    there = sorted(file for file in path.iterdir() if file.suffix == ".py")
    for file in there[:MAX_FILES]:
        if file.name.startswith(("_", ".")):
            continue
        problem = _name_problem(file.stem, files)
        if problem is not None:
            refused.append((str(file), problem))
            continue
        try:
            with file.open("rb") as opened:
                source = opened.read(MAX_SOURCE_BYTES + 1)
        except OSError as error:
            text = f"the file cannot be read ({error.strerror})"
            refused.append((str(file), Violation(1, "file", text, "let the hub's user read it")))
            continue
        name = file.stem.lower()
        files[name] = PluginFile(name, str(file), source)
    return Folder(tuple(files.values()), tuple(refused))


def _name_problem(stem: str, taken: dict[str, PluginFile]) -> Violation | None:
    problem = name_problem(stem)
    if problem is None and stem.lower() in taken:
        problem = (
            f"{taken[stem.lower()].path} has this name too",
            "let names differ in more than case",
        )
    return None if problem is None else Violation(1, "name", *problem)
