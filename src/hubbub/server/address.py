"""The server's address, and how commands with its data folder find it."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from hubbub.server.settings import Settings

_FILE = ".address"
"""The processes of a server hold a shared lock on the file, so that a dead server's address is not
used."""
_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


def address_of(settings: Settings, port: int) -> str:
    """The server's URL according to its settings."""
    return _url(settings, settings.listener.host, port)


class AddressFile:
    """The address in the data folder, from `begin` to `end`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._descriptor: int | None = None

    def begin(self, port: int) -> None:
        """Does nothing if the folder is not writable: commands must then name the address."""
        host = self._settings.listener.host
        address = _url(self._settings, _EVERYWHERE.get(host, host), port)
        path = Path(self._settings.storage.path) / _FILE
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, address.encode(), 0)
        except OSError:
            os.close(descriptor)
            return
        self._descriptor = descriptor

    def end(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def announced(data: Path) -> str | None:
    """The address of the running server that uses the folder. Raises `PermissionError`."""
    try:
        descriptor = os.open(data / _FILE, os.O_RDWR)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return None
        return os.pread(descriptor, 1000, 0).decode() or None
    finally:
        os.close(descriptor)


def _url(settings: Settings, host: str, port: int) -> str:
    scheme = "https" if settings.listener.tls.certificate else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
