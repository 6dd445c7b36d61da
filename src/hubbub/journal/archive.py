"""The archive: sealed segments of all nodes in one place, which may be an object store.

    {url}/sealed/{segment}.parquet           as in a journal's folder
    {url}/manifest/{folder id}-{number}.json  the entries of all folders' manifests

Nodes push what they have sealed; whoever analyses pulls it into a folder of their own. Both can be
cut short at any point and repeated, and run beside each other: a segment is there as a whole or not
at all, its name is used once, and an entry of a manifest comes after the segments that it names.
Any URL will do that Arrow can write: s3://, gs://, hdfs://, file://.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
from pyarrow import fs

from hubbub.domain.errors import BadRequest, Unavailable
from hubbub.domain.replacements import Replacement, current
from hubbub.files import sync
from hubbub.journal.folder import SEALED, JournalFolder
from hubbub.journal.upkeep import GRACE_SECONDS, alone, remove_replaced

_ID_FILE: Final = "folder.id"
_ENTRY: Final = ".json"
_CHUNK: Final = 1024 * 1024
_WITHOUT_ATOMIC_WRITES: Final = frozenset(("local", "hdfs", "subtree"))
"""File systems on which a partially written file is visible."""

_decode = msgspec.json.Decoder(Replacement).decode


class ArchiveUnavailable(Unavailable):
    """The archive of the journal cannot be reached, read or written."""

    code = "archive_unavailable"


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of segments transferred to or from the archive."""

    segments: int = 0
    bytes: int = 0
    removed: int = 0
    """Segments deleted because others replaced them."""


class Archive:
    """Blocking. Raises `BadRequest` for an invalid URL, and `ArchiveUnavailable`."""

    def __init__(self, url: str) -> None:
        try:
            self._fs, path = fs.FileSystem.from_uri(url)
        except (pa.ArrowException, OSError, ValueError):
            raise BadRequest(  # what Arrow says repeats the URL, and the keys in it
                f"the archive {_plain(url)!r} is no URL that Arrow can write; give one such as"
                " s3://bucket/journal or file:///mnt/journal"
            ) from None
        self._url = _plain(url)
        self._sealed = f"{path.rstrip('/')}/sealed"
        self._manifest = f"{path.rstrip('/')}/manifest"

    def push(self, journal: Path) -> Moved:
        """Uploads the folder's sealed segments, and deletes replaced ones from the archive."""
        folder = JournalFolder(journal)
        with self._reaching():
            self._fs.create_dir(self._sealed, recursive=True)
            self._fs.create_dir(self._manifest, recursive=True)
            there, entries = self._names(self._sealed, SEALED), self._entries()
            gone = {name for entry in entries.values() for name in entry.replaced}
            count = size = 0
            for path in folder.sealed_segments():
                if path.name not in there and path.name not in gone:
                    size += self._send(path, f"{self._sealed}/{path.name}")
                    count += 1
            gone |= self._push_manifest(folder, set(entries))
            removed = self._remove(self._names(self._sealed, SEALED) & gone)
        return Moved(segments=count, bytes=size, removed=removed)

    def pull(self, journal: Path) -> Moved:
        """Downloads the archive's segments into this folder, which is created if necessary."""
        folder = JournalFolder(journal)
        folder.make()
        folder.manifest.mkdir(mode=0o700, exist_ok=True)
        with alone(journal), self._reaching():
            entries = self._entries()
            names = set(current(self._names(self._sealed, SEALED), entries.values()))
            here = {path.name for path in folder.sealed.glob(f"*{SEALED}")} | folder.replaced()
            count = size = 0
            for name in sorted(names - here):
                size += self._fetch(f"{self._sealed}/{name}", folder.sealed / name)
                count += 1
            sync(folder.sealed)
            known = {path.stem for path in folder.manifest.glob(f"*{_ENTRY}")}
            own = f"{_folder_id(folder)}-"
            for entry in sorted(set(entries) - known):
                if not entry.startswith(own):
                    target = folder.manifest / f"{entry}{_ENTRY}"
                    self._fetch(f"{self._manifest}/{entry}{_ENTRY}", target)
            sync(folder.manifest)
            removed = len(remove_replaced(folder, GRACE_SECONDS))
        return Moved(segments=count, bytes=size, removed=removed)

    # -- manifests ------------------------------------------------------------------------------

    def _entries(self) -> dict[str, Replacement]:
        """Manifest entries by name, if all their segments exist: an entry is written last."""
        found = {}
        for name in sorted(self._names(self._manifest, _ENTRY)):
            with self._fs.open_input_stream(f"{self._manifest}/{name}") as stream:
                found[name.removesuffix(_ENTRY)] = _decode(stream.read())
        return found

    def _push_manifest(self, folder: JournalFolder, there: set[str]) -> set[str]:
        """Returns the names of segments that the folder's own entries replace."""
        prefix = _folder_id(folder)
        replaced: set[str] = set()
        for path in sorted(folder.manifest.glob(f"[0-9]*{_ENTRY}")):
            replaced.update(_decode(path.read_bytes()).replaced)
            name = f"{prefix}-{path.stem}"
            if name not in there:
                self._send(path, f"{self._manifest}/{name}{_ENTRY}")
        return replaced

    # -- files ----------------------------------------------------------------------------------

    def _names(self, folder: str, suffix: str) -> set[str]:
        selector = fs.FileSelector(folder, allow_not_found=True)
        return {
            info.base_name
            for info in self._fs.get_file_info(selector)
            if info.is_file and info.base_name.endswith(suffix) and info.base_name[0] not in "._"
        }

    def _send(self, path: Path, target: str) -> int:
        parent, _, name = target.rpartition("/")
        atomic = self._fs.type_name not in _WITHOUT_ATOMIC_WRITES
        draft = target if atomic else f"{parent}/.{secrets.token_hex(4)}-{name}"
        with path.open("rb") as source, self._fs.open_output_stream(draft) as stream:
            while part := source.read(_CHUNK):
                stream.write(part)
        if draft != target:
            self._fs.move(draft, target)
        return path.stat().st_size

    def _fetch(self, source: str, target: Path) -> int:
        draft = target.with_name(f".{target.name}")
        with self._fs.open_input_stream(source) as stream, draft.open("wb") as file:
            os.fchmod(file.fileno(), 0o600)
            while part := stream.read(_CHUNK):
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(target)
        return target.stat().st_size

    def _remove(self, names: set[str]) -> int:
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                self._fs.delete_file(f"{self._sealed}/{name}")
        return len(names)

    @contextlib.contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, msgspec.MsgspecError) as error:
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ArchiveUnavailable(
                f"the archive {self._url} cannot be used: {first[:300]}; nothing is lost, the next"
                " push or pull goes on from here"
            ) from None


def _folder_id(folder: JournalFolder) -> str:
    """Distinguishes this folder's manifest from others'; created at the first push."""
    path = folder.path / _ID_FILE
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        draft = path.with_name(f".{_ID_FILE}-{secrets.token_hex(4)}")
        draft.write_text(f"f{secrets.token_hex(6)}\n")
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
        draft.unlink()
        return path.read_text().strip()


def _plain(url: str) -> str:
    """The URL without credentials."""
    scheme, mark, rest = url.partition("://")
    rest = rest.partition("?")[0]
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"
