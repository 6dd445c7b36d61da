"""Routes of documents: those that services and administrators use, and, for the description, those
that `gateways.documents_api` serves."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from hubbub.domain.documents.changes import MERGE_PATCH, PATCH
from hubbub.domain.errors import (
    HistoryGone,
    InvalidPatch,
    InvalidPayload,
    NotFound,
    NotPermitted,
    PatchFailed,
    ProducerFenced,
    QuotaExceeded,
    SequenceGap,
    SequenceReused,
    Unavailable,
    UnsupportedMediaType,
    VersionMismatch,
    WrongChannelKind,
)
from hubbub.engine.administration import Administration
from hubbub.engine.documents.service import Changed
from hubbub.gateways.admin.nats_publishing import OVER_NATS
from hubbub.gateways.admin.paging import ListQuery, cut, make_page
from hubbub.gateways.admin.public_shapes import Open
from hubbub.gateways.admin.routes import Access, AdminRequest, AdminResponse, Routes
from hubbub.gateways.admin.shapes import Page, Shape
from hubbub.gateways.calls import NoQuery, given
from hubbub.gateways.documents_api import (
    ChangeQuery,
    ChangesQuery,
    Epoch,
    ReadQuery,
    Version,
    changed_json,
    changes_json,
    whole_patch,
    written,
)
from hubbub.ports.storage.documents import ListedDocument

_PATH = "/channels/{channel}/document"
_READING = (NotFound, NotPermitted, WrongChannelKind, HistoryGone, InvalidPatch, Unavailable)
_CHANGING = (
    NotFound, NotPermitted, WrongChannelKind, PatchFailed, InvalidPatch, InvalidPayload,
    VersionMismatch, SequenceGap, SequenceReused, ProducerFenced, QuotaExceeded, Unavailable,
)  # fmt: skip
_MAX_BODY_BYTES = 64 * 1024 * 1024
"""The limits of documents are smaller, and say more."""
_TAG = r'"[0-9a-f]+\.[0-9]{1,18}"'


class PatchOperation(Open, frozen=True, kw_only=True):
    """`value` for add, replace and test; `from` for move and copy. Paths are JSON Pointers."""

    op: Literal["add", "remove", "replace", "move", "copy", "test"]
    path: str
    source: str | UnsetType = msgspec.field(default=UNSET, name="from")
    value: Any = UNSET


class DocumentChanged(Open, frozen=True):
    """The version that a change led to. `duplicate`: it was there already. `ts` is in ms since
    1970."""

    epoch: str
    version: int
    timestamp: int = msgspec.field(name="ts")
    duplicate: bool


class DocumentChange(Open, frozen=True):
    """What raised a document to a version, in plain RFC 6902; `ts` is in ms since 1970."""

    version: int
    timestamp: int = msgspec.field(name="ts")
    author: str | None
    change_id: str
    ops: list[PatchOperation]


class DocumentChanges(Open, frozen=True):
    """In rising order. `epoch` and `version` are those of the document now, which is there where
    it was asked for and is the answer."""

    epoch: str
    version: int
    changes: list[DocumentChange]
    more: bool
    document: Any = UNSET


class DocumentEntry(Shape, frozen=True):
    """A document as it is on disk. `bytes` is its size as JSON, `changesKept` how many versions
    back it can be read, `storedBytes` what it takes with its history; `updatedAt` is in ms since
    1970."""

    channel: str
    epoch: str
    version: int
    bytes: int
    changes_kept: int
    stored_bytes: int
    updated_at: int


class DocumentView(Shape, frozen=True):
    """A document, or a part of it, at a version; `bytes` is the size of all of it as JSON, `ts` the
    time of the version's change in ms since 1970."""

    channel: str
    epoch: str
    version: int
    timestamp: int = msgspec.field(name="ts")
    bytes: int
    document: Any


class DocumentRestore(Shape, frozen=True):
    """The version whose content the document is to have again."""

    version: Version
    epoch: Epoch | None = None


DOCUMENT_ROUTES = Routes("/v1/admin/hubs/{hub}", "Documents", Access.SERVICE, _CHANGING)


@DOCUMENT_ROUTES.serve("GET", "/documents", errors=(NotFound, Unavailable))
async def list_documents(
    admin: Administration, request: AdminRequest[ListQuery, None]
) -> Page[DocumentEntry]:
    """List the documents of a hub."""
    query = request.query
    found = await admin.documents.page(request.hub, query.limit + 1, query.cursor, query.prefix)
    page, following = cut(found, query.limit, lambda each: each.channel)
    return make_page([_entry(each) for each in page], following)


def _entry(found: ListedDocument) -> DocumentEntry:
    head = found.head
    return DocumentEntry(
        channel=found.channel,
        epoch=head.epoch,
        version=head.version,
        bytes=head.size,
        changes_kept=head.version - head.first + 1,
        stored_bytes=head.stored_bytes,
        updated_at=head.updated_at,
    )


@DOCUMENT_ROUTES.serve(
    "GET", _PATH, answers={200: DocumentView}, errors=_READING, versioned=True, payloads=True
)
async def get_document(
    admin: Administration, request: AdminRequest[ReadQuery, None]
) -> AdminResponse:
    """Read a document or a part of it, also as it was."""
    channel = request.path["channel"]
    found = await admin.documents.get(request.actor, request.query.of(request.hub, channel))
    view = DocumentView(
        channel=channel,
        epoch=found.state.epoch,
        version=found.state.version,
        timestamp=found.state.timestamp,
        bytes=found.state.size,
        document=msgspec.Raw(written(found, channel)),
    )
    return AdminResponse(view, 200, found.state.version)


@DOCUMENT_ROUTES.serve(
    "GET", f"{_PATH}/changes", answers={200: DocumentChanges}, errors=_READING, payloads=True
)
async def list_document_changes(
    admin: Administration, request: AdminRequest[ChangesQuery, None]
) -> bytes:
    """Read the changes of a document that are kept."""
    query = request.query.of(request.hub, request.path["channel"])
    found = await admin.documents.get(request.actor, query)
    return changes_json(found)


async def _changed(
    admin: Administration,
    request: AdminRequest[ChangeQuery, bytes],
    action: Literal["replace", "patch"],
    patch: bytes,
) -> AdminResponse:
    channel, query = request.path["channel"], request.query
    options = await admin.documents.options(
        request.actor, request.hub, channel, request.condition, given(query.epoch)
    )
    return _outcome(
        await admin.documents.change(
            request.actor, request.hub, channel, action, patch, query.on(options), query.stamp(),
            _technology(request),
        )
    )  # fmt: skip


def _outcome(changed: Changed) -> AdminResponse:
    return AdminResponse(changed_json(changed), 200, changed.outcome.version)


def _technology(request: AdminRequest[Any, Any]) -> str:
    return "nats" if request.address == OVER_NATS else "http"


@DOCUMENT_ROUTES.serve(
    "PUT",
    _PATH,
    body=Any,
    answers={200: DocumentChanged},
    reads_itself=True,
    versioned=True,
    max_body_bytes=_MAX_BODY_BYTES,
)
async def replace_document(
    admin: Administration, request: AdminRequest[ChangeQuery, bytes]
) -> AdminResponse:
    """Replace a document; the body is the new one."""
    return await _changed(admin, request, "replace", whole_patch(request.raw))


@DOCUMENT_ROUTES.serve(
    "PATCH", _PATH, body=list[PatchOperation], answers={200: DocumentChanged},
    reads_itself=True, versioned=True,
    max_body_bytes=_MAX_BODY_BYTES,
)  # fmt: skip
async def patch_document(
    admin: Administration, request: AdminRequest[ChangeQuery, bytes]
) -> AdminResponse:
    """Apply the operations of a JSON Patch to a document, all or none of them."""
    return await _changed(admin, request, "patch", request.raw)


@DOCUMENT_ROUTES.serve("DELETE", _PATH, versioned=True)
async def delete_document(admin: Administration, request: AdminRequest[NoQuery, None]) -> None:
    """Delete a document with its history."""
    await admin.documents.delete(
        request.actor, request.hub, request.path["channel"], request.condition,
        _technology(request),
    )  # fmt: skip


@DOCUMENT_ROUTES.serve(
    "POST", f"{_PATH}/restore", answers={200: DocumentChanged}, versioned=True,
    errors=(*_CHANGING, HistoryGone),
)  # fmt: skip
async def restore_document(
    admin: Administration, request: AdminRequest[NoQuery, DocumentRestore]
) -> AdminResponse:
    """Give a document the content of an earlier version, as one more change."""
    return _outcome(
        await admin.documents.restore(
            request.actor, request.hub, request.path["channel"], request.body.version,
            request.condition, request.body.epoch, _technology(request),
        )
    )  # fmt: skip


PUBLIC_DOCUMENT_ROUTES = Routes("/v1/hubs/{hub}", "Documents", Access.HUB, _CHANGING)
PUBLIC_DOCUMENT_ROUTES.describe(
    "GET", _PATH, "readDocument", "Read a document or a part of it, also as it was",
    query=ReadQuery, answers={200: Any}, errors=_READING, versioned=True, tag_pattern=_TAG,
)  # fmt: skip
PUBLIC_DOCUMENT_ROUTES.describe(
    "GET", f"{_PATH}/changes", "readDocumentChanges", "Read the changes of a document that are "
    "kept", query=ChangesQuery, answers={200: DocumentChanges}, errors=_READING,
)  # fmt: skip
PUBLIC_DOCUMENT_ROUTES.describe(
    "PUT", _PATH, "writeDocument", "Replace a document; the body is the new one",
    query=ChangeQuery, body=Any, answers={200: DocumentChanged}, versioned=True, tag_pattern=_TAG,
)  # fmt: skip
PUBLIC_DOCUMENT_ROUTES.describe(
    "PATCH", _PATH, "changeDocument", "Change a document: by the operations of a JSON Patch, all "
    "or none of them, or by a merge patch", query=ChangeQuery, body=list[PatchOperation],
    content_type=PATCH, other_bodies={MERGE_PATCH: Any}, answers={200: DocumentChanged},
    errors=(*_CHANGING, UnsupportedMediaType), versioned=True, tag_pattern=_TAG,
)  # fmt: skip
PUBLIC_DOCUMENT_ROUTES.describe(
    "DELETE", _PATH, "dropDocument", "Delete a document with its history; takes the level service",
    answers={204: None},
)  # fmt: skip
