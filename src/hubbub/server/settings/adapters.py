"""Settings of adapters to people and tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta


class AdapterFolders(msgspec.Struct, frozen=True, kw_only=True):
    """Adapters to people and tools; each hub configures which of them it uses."""

    path: Path | None = None
    """Folder with Python files that declare custom adapters. They run inside the hub with its
    privileges; without this setting only the built-in adapters exist."""
    files: Path | None = None
    """Folder in which adapters of the kind `folder` read, with a subfolder for each hub; without it
    they read nothing."""
    give_up_after: Annotated[float, Meta(ge=0.1, le=365 * 86_400)] | None = None
    """Seconds after the first failure in which a message to a peer is retried. Default:
    `webhooks.giveUpAfter`, within `webhooks.retries`."""
