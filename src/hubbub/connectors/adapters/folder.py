"""Files of a folder on the hub's machine as messages. What was taken moves to `.done` below it.

Only folders inside of the hub's own folder, which an operator chose, are read: whoever sets up an
adapter need not be one who may read the machine's files.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from hubbub.ports.adapters import AdapterContext, AdapterFailed, Pulled, TemporaryFailure, adapter
from hubbub.protocols.adapters.files import (
    FileSettings,
    FileState,
    Sightings,
    file_message,
    is_wanted,
)

T = TypeVar("T")
_MOST_FILES = 10_000
_DONE, _REFUSED = ".done", ".refused"


class FolderSettings(FileSettings, frozen=True, kw_only=True):
    path: str = ""
    """The folder, inside of the hub's own."""


class _Receipt(msgspec.Struct, frozen=True):
    name: str
    id: str


@adapter(name="folder", settings=FolderSettings, direction="pull")
class FolderIn:
    def __init__(self, settings: FolderSettings, context: AdapterContext) -> None:
        self._settings = settings
        self._context = context
        self._sightings = Sightings(settings.stable_seconds)

    async def pull(self) -> Pulled | None:
        return await _in_thread(self._next)

    async def settle(self, receipt: object) -> None:
        assert isinstance(receipt, _Receipt)
        await _in_thread(lambda: self._put_away(receipt.name, _DONE, receipt.id))

    async def close(self) -> None:
        pass

    # -- in a thread ----------------------------------------------------------------------------

    def _folder(self) -> Path:
        root = self._context.files
        if root is None:
            raise AdapterFailed("this server gives its hubs no folder (adapters.files)")
        root.mkdir(parents=True, exist_ok=True)
        folder = (root / self._settings.path).resolve()
        if not folder.is_relative_to(root.resolve()):
            raise AdapterFailed(f"{self._settings.path!r} leads out of the hub's own folder")
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _next(self) -> Pulled | None:
        folder = self._folder()
        found = self._files(folder)
        for name in self._sightings.stable(found, self._context.clock.monotonic()):
            if found[name].size > self._settings.max_bytes:
                self._put_away(name, _REFUSED, "too-large")
                continue
            data = _read(folder / name)
            message = file_message(self._context.name, name, data, self._settings)
            return Pulled(message, _Receipt(name, message.id))
        return None

    def _files(self, folder: Path) -> dict[str, FileState]:
        found: dict[str, FileState] = {}
        with os.scandir(folder) as entries:
            for entry in entries:
                if len(found) >= _MOST_FILES:
                    break
                if is_wanted(entry.name, self._settings) and entry.is_file(follow_symlinks=False):
                    about = entry.stat(follow_symlinks=False)
                    found[entry.name] = FileState(about.st_size, f"{about.st_mtime_ns:020}")
        return found

    def _put_away(self, name: str, where: str, mark: str) -> None:
        """A file of the same name may be there already, from earlier."""
        folder = self._folder()
        (folder / where).mkdir(exist_ok=True)
        mark = "".join(each for each in mark if each.isalnum() or each in "-_")[-32:]
        with suppress(FileNotFoundError):  # it was put away before a crash
            (folder / name).rename(folder / where / f"{name[:180]}.{mark}")


def _read(path: Path) -> bytes:
    """Follows no link, which somebody may have put in the file's place."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        return file.read()


async def _in_thread(work: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(work)
    except OSError as error:
        raise TemporaryFailure(f"the folder cannot be used: {error.strerror}") from None
