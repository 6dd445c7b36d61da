"""Files of a folder on the hub's machine as messages. Read files are moved to `.done` below the
folder; unreadable files stay.

Only folders inside the hub's own folder, which an operator configured, are read: whoever configures
an adapter may lack the right to read the machine's files.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hubbub.connectors.adapters.failures import tell_left
from hubbub.ports.adapters import AdapterContext, AdapterFailed, Pulled, TemporaryFailure, adapter
from hubbub.protocols.adapters.files import (
    FileSettings,
    FileState,
    Sightings,
    TakenFile,
    file_message,
    is_wanted,
)

T = TypeVar("T")
_MOST_FILES = 10_000
_DONE = ".done"
_LONGEST_NAME = 200
"""The longest file name below `.done`, in bytes, to which a suffix is added: file systems allow
255."""


class FolderSettings(FileSettings, frozen=True, kw_only=True):
    path: str = ""
    """The folder, inside the hub's own folder."""


@adapter(name="folder", settings=FolderSettings, direction="pull")
class FolderIn:
    def __init__(self, settings: FolderSettings, context: AdapterContext) -> None:
        self._settings = settings
        self._context = context
        self._sightings = Sightings(settings.stable_seconds, settings.max_bytes)

    async def pull(self) -> Pulled | None:
        """Raises `AdapterFailed` for unreadable files, after all readable ones."""
        found = await _in_thread(self._next)
        if found is None:
            tell_left(self._context, self._sightings.untold())
        return found

    async def settle(self, receipt: object) -> None:
        assert isinstance(receipt, TakenFile)
        await _in_thread(lambda: self._put_away(receipt))

    def pending_seconds(self) -> float:
        return self._sightings.pending_seconds(self._context.clock.monotonic())

    async def refuse(self, receipt: object) -> None:
        assert isinstance(receipt, TakenFile)
        self._sightings.leave(receipt)

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
            data = self._read(folder / name, found[name])
            if data is not None:
                message = file_message(self._context.name, name, data, self._settings)
                return Pulled(message, TakenFile(name, found[name], message.id))
        return None

    def _files(self, folder: Path) -> dict[str, FileState]:
        found: dict[str, FileState] = {}
        with os.scandir(folder) as entries:
            for entry in entries:
                if len(found) >= _MOST_FILES:
                    break
                if is_wanted(entry.name, self._settings) and entry.is_file(follow_symlinks=False):
                    found[entry.name] = _state(entry.stat(follow_symlinks=False))
        return found

    def _read(self, path: Path, state: FileState) -> bytes | None:
        """None if the file was replaced since it was listed, or is unreadable."""
        try:
            opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except PermissionError:
            self._sightings.refuse(path.name, state, "the hub may not read it")
            return None
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ELOOP):  # it is gone, or a link by now
                return None
            raise
        with open(opened, "rb") as file:
            data = file.read(state.size + 1)
            same = len(data) == state.size and _state(os.fstat(file.fileno())) == state
        return data if same else None

    def _put_away(self, file: TakenFile) -> None:
        """Moves the file to `.done`, where a file with the same name may exist. A file changed
        since it was read stays, and is read next."""
        folder = self._folder()
        try:
            if _state((folder / file.name).lstat()) != file.state:
                return
        except FileNotFoundError:  # it was put away before a crash
            return
        (folder / _DONE).mkdir(exist_ok=True)
        kept = os.fsdecode(os.fsencode(file.name)[:_LONGEST_NAME])
        (folder / file.name).rename(folder / _DONE / f"{kept}.{file.mark}")


def _state(about: os.stat_result) -> FileState:
    return FileState(about.st_size, f"{about.st_mtime_ns:020}.{about.st_dev}.{about.st_ino}")


async def _in_thread(work: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(work)
    except OSError as error:
        raise TemporaryFailure(f"the folder cannot be used: {error.strerror}") from None
