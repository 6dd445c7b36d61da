"""Routes of documents that services and administrators use."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from hubbub.domain.errors import (
    HistoryGone,
    NotFound,
    Unavailable,
)
from hubbub.engine.administration import Administration
from hubbub.engine.documents.service import Changed
from hubbub.gateways.admin.nats_publishing import OVER_NATS
from hubbub.gateways.admin.paging import ListQuery, cut, make_page
from hubbub.gateways.admin.shapes import Page, Shape
from hubbub.gateways.calls import NoQuery, given
from hubbub.gateways.documents.hub_routes import (
    CHANGING,
    PATH,
    READING,
    ChangeQuery,
    ChangesQuery,
    DocumentChanged,
    DocumentChanges,
    Epoch,
    PatchOperation,
    ReadQuery,
    Version,
    changed_json,
    changes_json,
    whole_patch,
    written,
)
from hubbub.gateways.routes import Access, AdminRequest, AdminResponse, Routes
from hubbub.ports.storage.documents import ListedDocument

_MAX_BODY_BYTES = 64 * 1024 * 1024
"""The limits of documents are smaller, and say more."""


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


ROUTES = Routes("/v1/admin/hubs/{hub}", "Documents", Access.SERVICE, CHANGING)


@ROUTES.serve("GET", "/documents", errors=(NotFound, Unavailable), payloads=True)
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


@ROUTES.serve(
    "GET", PATH, answers={200: DocumentView}, errors=READING, versioned=True, payloads=True
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


@ROUTES.serve(
    "GET", f"{PATH}/changes", answers={200: DocumentChanges}, errors=READING, payloads=True
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


@ROUTES.serve(
    "PUT",
    PATH,
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


@ROUTES.serve(
    "PATCH", PATH, body=list[PatchOperation], answers={200: DocumentChanged},
    reads_itself=True, versioned=True,
    max_body_bytes=_MAX_BODY_BYTES,
)  # fmt: skip
async def patch_document(
    admin: Administration, request: AdminRequest[ChangeQuery, bytes]
) -> AdminResponse:
    """Apply the operations of a JSON Patch to a document, all or none of them."""
    return await _changed(admin, request, "patch", request.raw)


@ROUTES.serve("DELETE", PATH, versioned=True)
async def delete_document(admin: Administration, request: AdminRequest[NoQuery, None]) -> None:
    """Delete a document with its history."""
    await admin.documents.delete(
        request.actor, request.hub, request.path["channel"], request.condition,
        _technology(request),
    )  # fmt: skip


@ROUTES.serve(
    "POST", f"{PATH}/restore", answers={200: DocumentChanged}, versioned=True,
    errors=(*CHANGING, HistoryGone),
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
