"""Entries of the audit log."""

from __future__ import annotations

from collections.abc import Sized

import msgspec
from msgspec import UnsetType


class AuditEntry(msgspec.Struct, frozen=True):
    """A recorded change and its author. `at` is in ms since 1970; `before` and `after` are JSON,
    None if the object did not exist. `id`s rise with time within a hub; if one is taken, the store
    assigns the next free one."""

    at: int
    hub: str
    actor: str
    level: str
    action: str
    name: str
    before: bytes | None = None
    after: bytes | None = None
    token_id: str | None = None
    id: int = 0


Audit = AuditEntry | UnsetType | None
"""The audit entry stored with a change; unset, it takes no bytes between nodes."""


def noted(entry: Audit, about: Sized) -> tuple[AuditEntry, ...]:
    """The entry of a change of several things, with their number as its name; none where nothing
    changes."""
    if not isinstance(entry, AuditEntry) or not about:
        return ()
    return (msgspec.structs.replace(entry, name=str(len(about))),)
