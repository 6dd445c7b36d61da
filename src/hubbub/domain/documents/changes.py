"""Requests about a document to its owner, their responses, and what followers are told."""

from __future__ import annotations

from hashlib import blake2b
from typing import Literal

import msgspec

from hubbub.domain.asking import ChannelRequest, FeedEvent
from hubbub.domain.audit import AuditEntry

PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
MAX_CHANGE_ID_CHARS = 64
PAGE = 500
"""The most updates in one response."""
CATCH_UP_BYTES = 64 * 1024
"""Up to this size, a follower that missed updates receives them, even if the document is smaller:
reading the document would cost a request per subscriber."""


def digest_of(patch: bytes) -> bytes:
    """Distinguishes two changes that a producer sent under the same sequence number."""
    return blake2b(patch, digest_size=8).digest()


class ChangeOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a patch changes a document, and under which conditions."""

    kind: Literal["patch", "merge", "delete"] = "patch"
    expected_version: int | None = None
    """0: the document must not exist."""
    must_exist: bool = False
    epoch: str | None = None
    change_id: str = ""
    from_hub: bool = False
    """The hub created the patch, which may be as large as a document."""
    audit: AuditEntry | None = None
    """Stored with the change; the owner adds what the change led to."""


class DocumentState(msgspec.Struct, frozen=True):
    """The version of a document. Version 0 is `{}`: never written, or deleted."""

    epoch: str
    version: int
    timestamp: int
    """The time of the last change, in milliseconds since 1970."""
    size: int


class DocumentUpdate(msgspec.Struct, frozen=True):
    """The change that led to a version, as a JSON list of RFC 6902 operations that any library can
    apply."""

    epoch: str
    version: int
    timestamp: int
    author: str | None
    change_id: str
    ops: bytes


class ChangeOutcome(msgspec.Struct, frozen=True):
    """The version that a change produced."""

    epoch: str
    version: int
    timestamp: int


class DocumentAnswer(msgspec.Struct, frozen=True):
    """The document's JSON text, or the updates that lead to its version; with `more`, to an earlier
    version. `recovered`: none of the requested changes is gone."""

    state: DocumentState
    document: bytes | None = None
    updates: tuple[DocumentUpdate, ...] = ()
    more: bool = False
    recovered: bool = True


class DocumentQuery(ChannelRequest[DocumentAnswer], frozen=True):
    """Reads a document, a part of it (`path`), an earlier state (`at`, `at_time` in ms), or the
    changes `since` a version of an epoch. With `limit`, the response holds single changes: those
    after `since`, or the newest ones `before` a version."""

    travels_in = ("document", "query")

    path: str = ""
    since: int | None = None
    epoch: str | None = None
    at: int | None = None
    at_time: int | None = None
    before: int | None = None
    limit: int = 0
    least_bytes: int = 1024
    """Updates up to this size are returned even if the document is smaller."""


class DocumentAdvanced(FeedEvent, frozen=True, tag="document"):
    """The change that led to a version of the channel's document."""

    missed_shows = True

    update: DocumentUpdate
    size: int
    """The size of the document after the change."""
