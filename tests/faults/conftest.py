"""Fixtures of the fault tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for two megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a small disk takes root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def failing_disk(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A file system, and a file: once something is written to it, the kernel finds the file system
    damaged and lets nobody write to it, also not to files that are open."""
    image, folder = tmp_path / "image", tmp_path / "failing"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(64 << 20)
    make = ["mkfs.ext4", "-q", "-F", str(image)]
    mount = ["mount", "-o", "loop,errors=remount-ro", str(image), str(folder)]
    for command in (make, mount):
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
            pytest.skip("mounting a file system takes root, ext4 and loop devices")
    device = os.stat(folder).st_dev
    name = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve().name
    yield folder, Path(f"/sys/fs/ext4/{name}/trigger_fs_error")
    subprocess.run(["umount", "-l", str(folder)], check=True)
