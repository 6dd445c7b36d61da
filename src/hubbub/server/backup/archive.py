"""The archive of a backup: a compressed tar file that opens with a manifest of what follows."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from hubbub import __version__
from hubbub.files import sync
from hubbub.server.data_folder import DATABASE, SECRETS
from hubbub.storage.sqlite.copies import LeftOut

FORMAT = 1
MANIFEST = "manifest.json"
_FILES = (DATABASE, SECRETS)
_MOST_MANIFEST_BYTES = 64 * 1024
_CHUNK = 1 << 20
_MOST_READ_BYTES = 2 * _CHUNK
_COMPRESSION = 4  # half the time of the default for two percent more

Progress = Callable[[str, float], None]
"""Receives the current step, and its completed share."""


class BackupError(Exception):
    """A backup or a restore failed; the message says why and what to do."""


class FileEntry(msgspec.Struct, frozen=True):
    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """Metadata of an archive. `schema` is the version of the database's tables; `left_out` is None
    in an archive with secrets."""

    format: int
    hubbub: str
    schema: int
    created: str
    files: dict[str, FileEntry]
    left_out: LeftOut | None = None


def describe_files(folder: Path, schema: int, created: str, left_out: LeftOut | None) -> Manifest:
    """Creates the manifest of the files in the folder."""
    files = {name: _entry(folder / name) for name in _FILES if (folder / name).exists()}
    return Manifest(FORMAT, __version__, schema, created, files, left_out)


def _entry(path: Path) -> FileEntry:
    with path.open("rb") as file:
        return FileEntry(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def write(path: Path, folder: Path, manifest: Manifest, progress: Progress) -> None:
    """Packs the folder's files into a new file that only its owner may read, and syncs it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with (
        os.fdopen(descriptor, "wb") as raw,
        gzip.GzipFile("", "wb", _COMPRESSION, raw) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        head = msgspec.json.format(msgspec.json.encode(manifest))
        tar.addfile(_member(MANIFEST, len(head)), io.BytesIO(head))
        for name, entry in manifest.files.items():
            with (folder / name).open("rb") as file:
                reporting = _Reporting(file, entry.bytes, f"packing {name}", progress)
                tar.addfile(_member(name, entry.bytes), reporting)
    sync(path)


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size
    member.mode = 0o600
    return member


class _Reporting:
    """A file that reports how much of it was read."""

    def __init__(self, file: IO[bytes], size: int, work: str, progress: Progress) -> None:
        self._file = file
        self._size = size
        self._work = work
        self._progress = progress
        self._next_report = 0

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        if self._file.tell() >= self._next_report:
            self._progress(self._work, self._file.tell() / self._size if self._size else 1.0)
            self._next_report = self._file.tell() + self._size // 100
        return data


def read_manifest(path: Path) -> Manifest:
    """Raises `BackupError` for an invalid archive, or one that this version cannot read."""
    with _opened(path) as tar:
        return _manifest(tar, path)


def unpack(path: Path, folder: Path, progress: Progress) -> Manifest:
    """Extracts the files of an archive to the folder, each verified against the manifest. Raises
    `BackupError`."""
    with _opened(path) as tar:
        manifest = _manifest(tar, path)
        missing = dict(manifest.files)
        while (member := tar.next()) is not None:
            entry = missing.pop(member.name, None)
            if entry is None or not member.isreg() or member.size != entry.bytes:
                raise BackupError(f"{path} does not hold what its manifest says ({member.name!r})")
            content = tar.extractfile(member)
            assert content is not None
            digest = _unpack_file(content, folder / member.name, entry.bytes, progress)
            if digest != entry.sha256:
                raise BackupError(f"{path} is damaged: the checksum of {member.name} is wrong")
        if missing:
            raise BackupError(f"{path} is incomplete: {', '.join(missing)} is not in it")
    return manifest


def _unpack_file(content: IO[bytes], target: Path, size: int, progress: Progress) -> str:
    digest = hashlib.sha256()
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
            file.write(chunk)
            progress(f"unpacking {target.name}", file.tell() / size)
        file.flush()
        os.fsync(descriptor)
    return digest.hexdigest()


class _Packed(gzip.GzipFile):
    """Limits the size of reads: `tarfile` loads a header of any size into memory, and a small
    archive can contain a huge one."""

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= _MOST_READ_BYTES:
            raise tarfile.ReadError("a header is too large")
        return super().read(size)


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        with _Packed(path, "rb") as packed, tarfile.open(fileobj=packed, mode="r:") as tar:
            yield tar
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BackupError(f"{path} is no archive of a backup, or is damaged ({error})") from error


def _manifest(tar: tarfile.TarFile, path: Path) -> Manifest:
    first = tar.next()
    content = tar.extractfile(first) if first is not None and first.isreg() else None
    if first is None or first.name != MANIFEST or content is None:
        raise BackupError(f"{path} is no archive of a backup: it does not open with a manifest")
    try:
        manifest = msgspec.json.decode(content.read(_MOST_MANIFEST_BYTES), type=Manifest)
    except msgspec.DecodeError as error:
        raise BackupError(f"the manifest of {path} cannot be read: {error}") from None
    if manifest.format != FORMAT:
        raise BackupError(
            f"{path} has format {manifest.format}, this Hubbub reads {FORMAT}: restore it with"
            f" Hubbub {manifest.hubbub}"
        )
    if DATABASE not in manifest.files or not manifest.files.keys() <= set(_FILES):
        raise BackupError(f"{path} does not hold what a backup holds: {', '.join(manifest.files)}")
    return manifest
