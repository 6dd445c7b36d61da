"""The keys of command plugins."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

MIB = 1024 * 1024


class HCommands(msgspec.Struct, frozen=True, kw_only=True):
    """Commands, validators and savers of your own, as Python files that run in processes apart."""

    path: Path | None = None
    """Folder with a file `NAME.py` for each; without it there are none."""
    workers: Annotated[int, Meta(ge=1, le=256)] = 4
    """Processes in which they run. A process serves one hub; a hub alone gets half of them."""
    memory_bytes: Annotated[int, Meta(ge=8 * MIB, le=64 * 1024 * MIB)] = 64 * MIB
    """What the code in one process may allocate, beside the interpreter's own 20 MiB."""
    static_analysis: bool = True
    """Refuse files with dangerous constructs. Without it the limits of the operating system hold
    alone, and code reaches everything inside of its process."""
