"""Settings of command plugins."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

MIB = 1024 * 1024


class HCommands(msgspec.Struct, frozen=True, kw_only=True):
    """Custom commands, validators and savers, as Python files that run in separate processes."""

    path: Path | None = None
    """Folder with a file `NAME.py` for each; without it there are none."""
    workers: Annotated[int, Meta(ge=1, le=256)] = 4
    """Number of plugin processes. A process serves one hub; a single hub gets half of them."""
    memory_bytes: Annotated[int, Meta(ge=8 * MIB, le=64 * 1024 * MIB)] = 64 * MIB
    """Memory that the code in one process may allocate, besides the interpreter's own 20 MiB."""
    static_analysis: bool = True
    """Reject files with dangerous constructs. Without it, only the operating system's limits apply,
    and code can access everything inside its process."""
