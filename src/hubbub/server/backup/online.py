"""Backups on behalf of a running server, made by a process of their own.

Copying, checking and packing take seconds of computing. In the server's process they would take
them from its clients; here they run beside it, with low priority.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path

import msgspec

from hubbub.domain.errors import StoreUnavailable
from hubbub.processes import module_command, module_environment
from hubbub.server.backup.archive import BackupError, Manifest, Progress
from hubbub.server.backup.making import back_up
from hubbub.server.data_folder import BACKUPS

_NICENESS = 10
_STEP_OF_PROGRESS = 0.05


class _Said(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the process: progress, the outcome, or why there is none."""

    work: str = ""
    share: float = 0.0
    made: tuple[str, Manifest] | None = None
    error: str = ""


async def back_up_online(data: Path, progress: Progress | None = None) -> tuple[Path, Manifest]:
    """Write an archive, without the signing keys, to the folder `backups` in the data folder.
    Raises `StoreUnavailable`."""
    process = await asyncio.create_subprocess_exec(
        *module_command("hubbub.server.backup.online", str(data)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        env=module_environment(),
    )
    try:
        return await _follow(process, progress)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _follow(
    process: asyncio.subprocess.Process, progress: Progress | None
) -> tuple[Path, Manifest]:
    assert process.stdout is not None
    async for line in process.stdout:
        said = msgspec.json.decode(line, type=_Said)
        if said.error:
            raise StoreUnavailable(said.error)
        if said.made is not None:
            return Path(said.made[0]), said.made[1]
        if progress is not None:
            progress(said.work, said.share)
    raise StoreUnavailable("the process that makes the backup ended before its time")


def main() -> None:
    with contextlib.suppress(OSError):  # a supervisor may forbid it
        os.nice(_NICENESS)
    data = Path(sys.argv[1])
    last = ("", 0.0)

    def report(work: str, share: float) -> None:
        nonlocal last
        if work != last[0] or share >= min(1.0, last[1] + _STEP_OF_PROGRESS):
            last = (work, share)
            _say(_Said(work, share))

    try:
        (data / BACKUPS).mkdir(mode=0o700, exist_ok=True)
        path, manifest = back_up(data, data / BACKUPS, progress=report)
    except (BackupError, OSError) as error:
        _say(_Said(error=str(error)))
    else:
        _say(_Said(made=(str(path), manifest)))


def _say(said: _Said) -> None:
    print(msgspec.json.encode(said).decode(), flush=True)


if __name__ == "__main__":
    main()
