"""Adapters written by the operator: Python files of a folder, loaded when the hub starts.

They run in the hub's process with its privileges, so only someone who may start the hub can install
them. A file that cannot be loaded is reported with its reason; the hub starts without it.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
import traceback
from pathlib import Path
from typing import Any

import msgspec

from hubbub.domain.errors import Conflict
from hubbub.ports.adapters import AdapterKind, AdapterKinds, declaring

logger = logging.getLogger(__name__)
_PACKAGE = "hubbub_adapters"


class BrokenFile(msgspec.Struct, frozen=True):
    path: str
    reason: str
    """The error, with the line in the file if known."""


def load_folder(folder: Path, kinds: AdapterKinds) -> list[BrokenFile]:
    """Blocking. Adds the adapters declared in the files to `kinds`, in the order of file names;
    files that begin with `_` or `.` are skipped. Returns the files that could not be loaded, from
    which nothing is added. Raises `OSError` if the folder cannot be listed."""
    broken = []
    for path in sorted(folder.glob("*.py")):
        if path.name.startswith(("_", ".")):
            continue
        try:
            found = _load(path)
            _add(found, kinds)
        except _Unloadable as error:
            broken.append(BrokenFile(str(path), str(error)))
            logger.error("the adapters in %s are not available: %s", path, error)
    return broken


class _Unloadable(Exception):
    """Why a file declares no usable adapters."""


def _load(path: Path) -> list[AdapterKind[Any]]:
    name = f"{_PACKAGE}.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise _Unloadable("it is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # structs look their annotations up there
    try:
        with declaring() as declared:
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001  whatever the operator's code raises
        del sys.modules[name]
        raise _Unloadable(_reason(error, path)) from None
    if not declared:
        raise _Unloadable("it declares no adapter; decorate a class with @adapter(...)")
    return declared


def _add(found: list[AdapterKind[Any]], kinds: AdapterKinds) -> None:
    """Adds all kinds of a file, or none."""
    names = [kind.name for kind in found]
    for name in names:
        if name in kinds.names() or names.count(name) > 1:
            raise _Unloadable(f"there is an adapter of the kind {name!r} already; rename this one")
    for kind in found:
        try:
            kinds.add(kind)
        except Conflict as error:
            raise _Unloadable(error.message) from None


def _reason(error: BaseException, path: Path) -> str:
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    own = [each for each in traceback.extract_tb(error.__traceback__) if each.filename == str(path)]
    return f"line {own[-1].lineno}: {text}" if own else text
