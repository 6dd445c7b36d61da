"""Documents over HTTP: read, replace, patch and delete them, with ETags as versions."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hubbub.domain.documents.changes import (
    MAX_CHANGE_ID_CHARS,
    MERGE_PATCH,
    PAGE,
    PATCH,
    ChangeOptions,
    DocumentAnswer,
    DocumentQuery,
    DocumentState,
)
from hubbub.domain.errors import (
    HistoryGone,
    InvalidPatch,
    InvalidPayload,
    Malformed,
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
from hubbub.domain.fields import NAME_SCHEMA
from hubbub.domain.payloads import json_text
from hubbub.domain.requests import Producer
from hubbub.engine.documents.service import Changed, Documents
from hubbub.engine.node import Node
from hubbub.gateways.calls import Digits, HubRequest, NoQuery, given
from hubbub.gateways.http import ReceivedRequest
from hubbub.gateways.public_shapes import Open
from hubbub.gateways.routes import Access, Routes

_ETAG = re.compile(r'"([0-9a-f]+)\.([0-9]{1,18})"')
_TAG = r'"[0-9a-f]+\.[0-9]{1,18}"'
_NEVER = -1
"""A version that no document has."""
PATH = "/channels/{channel}/document"
READING = (NotFound, NotPermitted, WrongChannelKind, HistoryGone, InvalidPatch, Unavailable)
CHANGING = (
    NotFound, NotPermitted, WrongChannelKind, PatchFailed, InvalidPatch, InvalidPayload,
    VersionMismatch, SequenceGap, SequenceReused, ProducerFenced, QuotaExceeded, Unavailable,
)  # fmt: skip

Version = Annotated[int, Meta(ge=0, le=2**53 - 1)]
Epoch = Annotated[str, Meta(max_length=64, description="In which the version counts.")]


class ReadQuery(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="A part of it, as a JSON Pointer.")] = ""
    at: Annotated[Version, Meta(description="As it was at this version.")] | UnsetType = UNSET
    at_time: Annotated[Version, Meta(description="As it was at this time (ms).")] | UnsetType = (
        UNSET
    )

    def of(self, hub: str, channel: str) -> DocumentQuery:
        at, at_time = given(self.at), given(self.at_time)
        return DocumentQuery(hub, channel, self.path, at=at, at_time=at_time)


class ChangeQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    producer: (
        Annotated[str, Meta(description="Who changes it.", extra_json_schema=NAME_SCHEMA)]
        | UnsetType
    ) = UNSET
    sequence: (
        Annotated[Digits, Meta(description="As which of the producer's changes; the first is 1.")]
        | UnsetType
    ) = UNSET
    fence: (
        Annotated[Digits, Meta(description="What opening the producer answered.")] | UnsetType
    ) = UNSET

    epoch: Epoch | UnsetType = UNSET
    change_id: (
        Annotated[
            str,
            Meta(max_length=MAX_CHANGE_ID_CHARS, description="By which its sender knows it again."),
        ]
        | UnsetType
    ) = msgspec.field(default=UNSET, name="changeID")

    def on(self, conditions: ChangeOptions) -> ChangeOptions:
        """The conditions in the headers, combined with those in the query."""
        return msgspec.structs.replace(
            conditions,
            epoch=conditions.epoch or given(self.epoch),
            change_id=given(self.change_id) or "",
        )

    def stamp(self) -> Producer | None:
        """Raises `Malformed`."""
        if self.producer is UNSET:
            if self.sequence is not UNSET or self.fence is not UNSET:
                raise Malformed("'sequence' and 'fence' need a 'producer' beside them")
            return None
        if self.sequence is UNSET:
            raise Malformed("'producer' needs a 'sequence' beside it; the first change is 1")
        return Producer(self.producer, int(self.sequence), int(given(self.fence) or 0))


class ChangesQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    after: Annotated[Version, Meta(description="Changes behind this version.")] | UnsetType = UNSET
    before: Annotated[Version, Meta(description="The newest before this version.")] | UnsetType = (
        UNSET
    )
    limit: Annotated[int, Meta(ge=1, le=PAGE, description="Changes at most.")] = 100
    epoch: Epoch | UnsetType = UNSET
    document: Annotated[
        bool,
        Meta(
            description="What brings a copy up to date: the changes behind `after`, or the "
            "document itself where it is shorter, they are not kept, or `after` is missing. "
            "`before` and `limit` do not count then."
        ),
    ] = False

    def of(self, hub: str, channel: str) -> DocumentQuery:
        after, before = given(self.after), given(self.before)
        if self.document:
            return DocumentQuery(hub, channel, since=after, epoch=given(self.epoch))
        return DocumentQuery(hub, channel, since=after or 0, before=before, limit=self.limit)


class PatchOperation(Open, frozen=True, kw_only=True):
    """`value` for add, replace and test; `from` for move and copy. Paths are JSON Pointers."""

    op: Literal["add", "remove", "replace", "move", "copy", "test"]
    path: str
    source: str | UnsetType = msgspec.field(default=UNSET, name="from")
    value: Any = UNSET


class DocumentChanged(Open, frozen=True):
    """The version after a change. `duplicate`: the change was applied before. `ts` is in ms since
    1970."""

    epoch: str
    version: int
    timestamp: int = msgspec.field(name="ts")
    duplicate: bool


class DocumentChange(Open, frozen=True):
    """The change that led to a version, as RFC 6902 operations; `ts` is in ms since 1970."""

    version: int
    timestamp: int = msgspec.field(name="ts")
    author: str | None
    change_id: str
    ops: list[PatchOperation]


class DocumentChanges(Open, frozen=True):
    """Changes in ascending order. `epoch` and `version` are the document's current ones; the
    document itself is included if it was requested and is the shorter response. `recovered: false`:
    some of the requested changes no longer exist."""

    epoch: str
    version: int
    changes: list[DocumentChange]
    more: bool
    recovered: bool
    document: Any = UNSET


ROUTES = Routes("/v1/hubs/{hub}", "Documents", Access.HUB, CHANGING, tag_pattern=_TAG)


@ROUTES.serve("GET", PATH, answers={200: Any}, errors=READING, versioned=True)
async def read_document(node: Node, request: HubRequest[ReadQuery]) -> None:
    """Read a document or a part of it, also as it was."""
    channel = request.path["channel"]
    query = request.query.of(request.hub.name, channel)
    found = await node.feature(Documents).get(request.hub, request.identity, query)
    document, tag = written(found, channel), etag(found.state)
    headers, seen = f"ETag: {tag}\r\n", request.request.header(b"if-none-match")
    if seen is not None and (seen.strip() == "*" or tag in _tags(seen)):
        request.exchange.answer(304, b"", headers=headers)
    else:
        request.exchange.answer(200, document, headers=headers)


@ROUTES.serve("GET", f"{PATH}/changes", answers={200: DocumentChanges}, errors=READING)
async def read_document_changes(node: Node, request: HubRequest[ChangesQuery]) -> bytes:
    """Read the changes of a document that are kept."""
    query = request.query.of(request.hub.name, request.path["channel"])
    return changes_json(await node.feature(Documents).get(request.hub, request.identity, query))


@ROUTES.serve("PUT", PATH, body=Any, answers={200: DocumentChanged}, versioned=True)
async def write_document(node: Node, request: HubRequest[ChangeQuery]) -> None:
    """Replace a document; the body is the new one."""
    await _change(node, request, whole_patch(request.request.body), _conditions(request.request))


@ROUTES.serve(
    "PATCH", PATH, body=list[PatchOperation], content_type=PATCH, other_bodies={MERGE_PATCH: Any},
    answers={200: DocumentChanged}, errors=(*CHANGING, UnsupportedMediaType), versioned=True,
)  # fmt: skip
async def change_document(node: Node, request: HubRequest[ChangeQuery]) -> None:
    """Change a document: by the operations of a JSON Patch, all or none of them, or by a merge
    patch."""
    conditions = _conditions(request.request)
    kind = (request.request.header(b"content-type") or "").partition(";")[0].strip().lower()
    if kind == MERGE_PATCH:
        conditions = msgspec.structs.replace(conditions, kind="merge")
    elif kind != PATCH:
        raise UnsupportedMediaType(
            f"a document is not patched with {kind[:80]!r}; send {PATCH} or {MERGE_PATCH}",
            (PATCH, MERGE_PATCH),
        )
    await _change(node, request, request.request.body, conditions)


async def _change(
    node: Node, request: HubRequest[ChangeQuery], patch: bytes, conditions: ChangeOptions
) -> None:
    options, stamp = request.query.on(conditions), request.query.stamp()
    which = (request.hub, request.identity, request.path["channel"])
    changed = await node.feature(Documents).settle(*which, patch, options, stamp, "http")
    tag = f'"{changed.outcome.epoch}.{changed.outcome.version}"'
    request.exchange.answer(200, changed_json(changed), headers=f"ETag: {tag}\r\n")


@ROUTES.serve("DELETE", PATH)
async def drop_document(node: Node, request: HubRequest[NoQuery]) -> None:
    """Delete a document with its history; requires the level service."""
    channel = request.path["channel"]
    if not request.identity.trusted:
        raise NotPermitted(f"only services delete documents; {channel!r} stays")
    deletion = ChangeOptions("delete")
    which = (request.hub, request.identity, channel)
    await node.feature(Documents).settle(*which, b"", deletion, None, "http")
    request.exchange.answer(204, b"")


def written(found: DocumentAnswer, channel: str) -> bytes:
    """The document's JSON text. Raises `NotFound`."""
    if not found.state.version or found.document is None:
        raise NotFound(f"the document {channel!r} was never written, or is deleted")
    return found.document


def etag(state: DocumentState) -> str:
    return f'"{state.epoch}.{state.version}"'


def whole_patch(text: bytes) -> bytes:
    """The change that replaces all of a document. Raises `InvalidPayload`."""
    return b'[{"op":"add","path":"","value":%b}]' % json_text(text)


def _conditions(request: ReceivedRequest) -> ChangeOptions:
    expected, unless = request.header(b"if-match"), request.header(b"if-none-match")
    if unless is not None:
        if unless.strip() != "*" or expected is not None:
            raise Malformed("a change takes `If-None-Match: *` or `If-Match`, not both")
        return ChangeOptions(expected_version=0)
    if expected is None:
        return ChangeOptions()
    if expected.strip() == "*":
        return ChangeOptions(must_exist=True)
    found = _ETAG.fullmatch(expected.strip())
    if found is None:  # no tag of a document, which matches none
        return ChangeOptions(expected_version=_NEVER)
    return ChangeOptions(expected_version=int(found[2]), epoch=found[1])


def _tags(header: str) -> list[str]:
    """Uses the weak comparison, as RFC 9110 requires for reads."""
    return [each.strip().removeprefix("W/") for each in header.split(",")]


def changed_json(changed: Changed) -> bytes:
    outcome = changed.outcome
    return msgspec.json.encode(
        DocumentChanged(
            epoch=outcome.epoch,
            version=outcome.version,
            timestamp=outcome.timestamp,
            duplicate=changed.duplicate,
        )
    )


def changes_json(found: DocumentAnswer) -> bytes:
    """Encodes changes, with the document if it was requested and is the shorter response."""
    state, document = found.state, found.document
    return msgspec.json.encode(
        DocumentChanges(
            epoch=state.epoch,
            version=state.version,
            changes=[
                DocumentChange(
                    version=each.version,
                    timestamp=each.timestamp,
                    author=each.author,
                    change_id=each.change_id,
                    ops=msgspec.Raw(each.ops),  # type: ignore[arg-type]  # the JSON of them
                )
                for each in found.updates
            ],
            more=found.more,
            recovered=found.recovered,
            document=UNSET if document is None else msgspec.Raw(document),
        )
    )
