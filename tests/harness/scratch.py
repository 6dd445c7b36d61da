"""Keeps what tests write in memory.

Tests create thousands of databases, each with a dozen waits for the disk. No test cuts the power,
so that a file in memory proves as much as a file on a disk.
"""

from __future__ import annotations

import os
import tempfile

import psutil

_MEMORY = "/dev/shm"
_BYTES_NEEDED = 4 * 2**30


def keep_in_memory() -> None:
    """Puts temporary files of this process and its children into memory, unless TMPDIR is set, or
    the file system in memory is small or runs no programs, as it is in a container."""
    if "TMPDIR" in os.environ or not _is_suitable():
        return
    os.environ["TMPDIR"] = _MEMORY
    tempfile.tempdir = None


def _is_suitable() -> bool:
    try:
        found = os.statvfs(_MEMORY)
    except OSError:
        return False
    room = min(found.f_bavail * found.f_frsize, psutil.virtual_memory().available // 2)
    return room >= _BYTES_NEEDED and not found.f_flag & os.ST_NOEXEC
