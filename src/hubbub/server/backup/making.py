"""Backup: archives the data folder of a hub, which may be running."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

from hubbub.domain.errors import StoreUnavailable
from hubbub.files import sync
from hubbub.server.backup import archive
from hubbub.server.backup.archive import BackupError, Manifest, Progress
from hubbub.server.backup.restore import half_restored
from hubbub.server.data_folder import DATABASE, SECRETS, exclusive, stamp
from hubbub.storage.sqlite.copies import copy_database, leave_out_secrets, require_whole


def back_up(
    data: Path, target: Path, *, with_secrets: bool = False, progress: Progress | None = None
) -> tuple[Path, Manifest]:
    """Writes a consistent archive of the store; returns its path and manifest. If `target` is a
    folder, the archive's name contains the time. Unless `with_secrets`, the archive contains
    neither the signing keys nor any secret of the store.

    The database is opened read-only, so a running hub is not disturbed. The archive appears under
    its name only when it is complete, checked and synced. Raises `BackupError`.
    """
    if target.is_dir():
        target = target / f"hubbub-{stamp()}.tar.gz"
    _check(data, target)
    draft = target.with_name(f".{target.name}.partial")
    try:
        with exclusive(draft):
            _clear(draft)
            made = _write(data, draft, with_secrets, progress or _silent)
            (draft / target.name).rename(target)
            sync(target.parent)
            shutil.rmtree(draft)
    except BlockingIOError:
        raise BackupError(f"another backup to {target} is under way") from None
    except StoreUnavailable as error:
        raise BackupError(str(error)) from error
    except OSError as error:
        raise BackupError(f"cannot write {target}: {error.strerror}") from error
    return target, made


def _check(data: Path, target: Path) -> None:
    if half_restored(data):
        raise BackupError(f"a restore of {data} was cut short; start the hub, which completes it")
    if not (data / DATABASE).exists():
        raise BackupError(f"there is no store in {data.absolute()}; name its folder")
    if target.exists():
        raise BackupError(f"{target} exists already; choose another name")
    if not target.parent.is_dir():
        raise BackupError(f"there is no folder {target.parent}; make it first")


def _write(data: Path, draft: Path, with_secrets: bool, progress: Progress) -> Manifest:
    created = datetime.now(UTC).isoformat(timespec="seconds")
    copy = draft / DATABASE
    copy_database(data / DATABASE, copy, lambda share: progress("copying the store", share))
    progress("checking the copy", 0.0)
    try:
        schema = require_whole(copy)
    except StoreUnavailable as error:
        raise BackupError(
            f"the store in {data} is damaged; keep the backups you have ({error})"
        ) from error
    left_out = None if with_secrets else leave_out_secrets(copy)
    if with_secrets and (data / SECRETS).exists():  # otherwise the settings have the keys
        shutil.copyfile(data / SECRETS, draft / SECRETS)
    manifest = archive.describe_files(draft, schema, created, left_out)
    name = draft.name.removeprefix(".").removesuffix(".partial")
    archive.write(draft / name, draft, manifest, progress)
    return manifest


def _clear(folder: Path) -> None:
    """Deletes the remains of killed backups."""
    for entry in folder.iterdir():
        entry.unlink()


def _silent(_work: str, _share: float) -> None:
    """Default progress callback: does nothing."""
