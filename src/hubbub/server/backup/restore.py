"""Restore: replaces a data folder by the content of an archive.

The folder is not changed before the archive has been unpacked beside it and verified. Then the
decision is recorded, and from there on the change is completed even if the process dies: by the
next start of the hub, or by the next restore. So the folder always contains either all of the old
data or all of the new.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from hubbub.domain.errors import StoreUnavailable
from hubbub.files import sync
from hubbub.server.backup import archive
from hubbub.server.backup.archive import BackupError, Manifest, Progress
from hubbub.server.data_folder import DATABASE, SECRETS, hand_over, occupied, stamp, taken
from hubbub.storage.sql.schema import SQLITE, load_migrations
from hubbub.storage.sqlite.copies import begin_anew, require_whole

_STAGE = ".restore"
_DECISION = "decided.json"
_LOGS = (f"{DATABASE}-wal", f"{DATABASE}-shm")


class Restored(msgspec.Struct, frozen=True):
    manifest: Manifest
    kept: Path | None
    """Where the previous files are now."""


class _Decision(msgspec.Struct, frozen=True):
    """`keep` names the folder, inside the data folder, for the replaced files."""

    keep: str


def restore(
    path: Path, data: Path, *, force: bool = False, progress: Progress | None = None
) -> Restored:
    """Moves the archive's content into the data folder, which no hub may use and which, unless
    `force`, must be empty. Replaced files are kept. Raises `BackupError`."""
    manifest = archive.read_manifest(path)
    check_version(path, manifest)
    created = not data.exists()
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        with taken(data):
            _complete(data)
            if occupied(data) and not force:
                raise BackupError(
                    f"{data} is not empty; give --force to put the archive in its place (what is"
                    " there now is kept beside it)"
                )
            return Restored(manifest, _replace(path, data, progress or (lambda *_: None)))
    except BaseException as error:
        if created:
            shutil.rmtree(data, ignore_errors=True)
        if isinstance(error, StoreUnavailable):
            raise BackupError(str(error)) from error
        if isinstance(error, OSError):
            raise BackupError(f"cannot restore to {data}: {error.strerror}") from error
        raise


def check_version(path: Path, manifest: Manifest) -> None:
    newest = load_migrations(SQLITE)[-1].version
    if manifest.schema > newest:
        raise BackupError(
            f"{path} was made by Hubbub {manifest.hubbub} with schema version {manifest.schema};"
            f" this Hubbub knows versions up to {newest}: restore it with the newer one"
        )


def _replace(path: Path, data: Path, progress: Progress) -> Path | None:
    with _stage(data) as stage:
        archive.unpack(path, stage, progress)
        progress("checking the store", 0.0)
        require_whole(stage / DATABASE)
        begin_anew(stage / DATABASE)
        sync(stage / DATABASE)
        decision = msgspec.json.encode(_Decision(keep=f"before-restore-{stamp()}"))
        draft = stage / f".{_DECISION}"
        draft.write_bytes(decision)
        sync(draft)
        hand_over(data, stage, *stage.iterdir())
        sync(stage)
        draft.rename(stage / _DECISION)
        sync(stage)
        return _complete(data)


@contextmanager
def _stage(data: Path) -> Iterator[Path]:
    """A temporary folder on the same file system, deleted unless the restore was decided."""
    stage = data / _STAGE
    if stage.exists():
        shutil.rmtree(stage)
    stage.mkdir(mode=0o700)
    try:
        yield stage
    except BaseException:
        if not half_restored(data):
            shutil.rmtree(stage)
        raise


def half_restored(data: Path) -> bool:
    """Whether a restore was decided but not completed."""
    return (data / _STAGE / _DECISION).exists()


def complete_restore(data: Path) -> bool:
    """Completes an interrupted restore; returns False if there was none. Raises `StoreUnavailable`
    while that restore is still running."""
    if not half_restored(data):
        return False
    with taken(data):
        _complete(data)
    return True


def _complete(data: Path) -> Path | None:
    """Idempotent steps. The old database's log is deleted before the new database arrives: SQLite
    would apply it."""
    stage = data / _STAGE
    if not half_restored(data):
        return None
    keep = data / msgspec.json.decode((stage / _DECISION).read_bytes(), type=_Decision).keep
    keep.mkdir(mode=0o700, exist_ok=True)
    hand_over(data, keep)
    if (stage / DATABASE).exists():
        for name in _LOGS:
            _keep(data / name, keep)
    for name in (DATABASE, SECRETS):
        if (stage / name).exists():
            _keep(data / name, keep)
            (stage / name).rename(data / name)
    sync(keep)
    sync(data)
    (stage / _DECISION).unlink()
    shutil.rmtree(stage)
    if any(keep.iterdir()):
        return keep
    keep.rmdir()
    return None


def _keep(path: Path, folder: Path) -> None:
    if path.exists():
        path.rename(folder / path.name)
