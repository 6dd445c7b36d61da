"""What is asked of a document at its owner, and what the owner answers."""

from __future__ import annotations

from hashlib import blake2b
from typing import Literal

import msgspec

PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
MAX_CHANGE_ID_CHARS = 64
PAGE = 500
"""Updates in one answer."""
CATCH_UP_BYTES = 64 * 1024
"""Updates that a follower missed are told up to this size, whatever the document's: reading the
document instead would take a request of each subscriber."""


def digest_of(patch: bytes) -> bytes:
    """Tells a producer's change from another one under the same sequence."""
    return blake2b(patch, digest_size=8).digest()


class ChangeOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a message is to change the document of its channel; its payload is the patch. Only the
    hub sets it (`Attributes.change`)."""

    kind: Literal["patch", "merge", "delete"] = "patch"
    expected_version: int | None = None
    """0: the document must not exist."""
    must_exist: bool = False
    epoch: str | None = None
    change_id: str = ""
    from_hub: bool = False
    """The patch was made by the hub and may be as large as a document."""


class DocumentState(msgspec.Struct, frozen=True):
    """Where a document stands. Version 0 is `{}`: never written, or deleted."""

    epoch: str
    version: int
    timestamp: int
    """Of the last change, in milliseconds since 1970."""
    size: int


class DocumentUpdate(msgspec.Struct, frozen=True):
    """What raised a document to a version: a JSON list of RFC 6902 operations that any library can
    follow."""

    epoch: str
    version: int
    timestamp: int
    author: str | None
    change_id: str
    ops: bytes


class ChangeOutcome(msgspec.Struct, frozen=True):
    """The version that a change led to."""

    epoch: str
    version: int
    timestamp: int


class DocumentQuery(msgspec.Struct, frozen=True):
    """A document, a part of it (`path`), as it was (`at`, `at_time` in ms), or what changed
    `since` a version of an epoch. With `limit`, the changes themselves: those behind `since`, or
    the newest `before` a version."""

    hub: str
    channel: str
    path: str = ""
    since: int | None = None
    epoch: str | None = None
    at: int | None = None
    at_time: int | None = None
    before: int | None = None
    limit: int = 0
    least_bytes: int = 1024
    """Updates up to this size are answered also where the document is smaller than they are."""


class DocumentAnswer(msgspec.Struct, frozen=True):
    """The document's JSON text, or the updates that lead to it; with `more`, to a version on the
    way."""

    state: DocumentState
    document: bytes | None = None
    updates: tuple[DocumentUpdate, ...] = ()
    more: bool = False
