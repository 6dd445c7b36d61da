"""Documents over HTTP: read, replace, patch and delete them, with ETags as versions."""

from __future__ import annotations

import re
from typing import Annotated

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
from hubbub.domain.errors import Malformed, NotFound, NotPermitted, UnsupportedMediaType
from hubbub.domain.fields import NAME_SCHEMA
from hubbub.domain.payloads import json_text
from hubbub.domain.requests import Producer
from hubbub.engine.documents.service import Changed
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node
from hubbub.gateways.calls import Digits, HubRequest, NoQuery, given, no_path
from hubbub.gateways.credentials import require_identity
from hubbub.gateways.exchange import Exchange
from hubbub.gateways.http import Request, Target

_ETAG = re.compile(r'"([0-9a-f]+)\.([0-9]{1,18})"')
_NEVER = -1
"""A version that no document has."""

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
        """The conditions of the headers, with what the query says beside them."""
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


class DocumentsApi:
    """The paths /v1/hubs/{hub}/channels/{channel}/document and …/document/changes."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def handle(
        self, request: Request, target: Target, exchange: Exchange, hub: Hub, channel: str
    ) -> None:
        """Raises `NotFound` for paths that are not here."""
        call = HubRequest(hub, require_identity(request, target, hub, self._node), request, target)
        rest = target.segments[6:]
        if rest == ("changes",):
            call.expect(b"GET")
            exchange.run(self._changes(call, exchange, channel))
        elif rest:
            raise no_path(request)
        elif request.method in (b"GET", b"HEAD"):
            exchange.run(self._read(call, exchange, channel))
        elif request.method == b"DELETE":
            exchange.complete(self._delete(call, exchange, channel))
        else:
            call.expect(b"GET", b"HEAD", b"PUT", b"PATCH", b"DELETE")
            exchange.complete(self._change(call, exchange, channel))

    async def _read(self, call: HubRequest, exchange: Exchange, channel: str) -> None:
        query = call.query(ReadQuery)
        found = await self._node.documents.get(
            call.hub, call.identity, query.of(call.hub.name, channel)
        )
        document = written(found, channel)
        tag = etag(found.state)
        seen = call.request.header(b"if-none-match")
        if seen is not None and (seen.strip() == "*" or tag in _tags(seen)):
            exchange.answer(304, b"", headers=f"ETag: {tag}\r\n")
        else:
            exchange.answer(200, document, headers=f"ETag: {tag}\r\n")

    async def _changes(self, call: HubRequest, exchange: Exchange, channel: str) -> None:
        query = call.query(ChangesQuery)
        found = await self._node.documents.get(
            call.hub, call.identity, query.of(call.hub.name, channel)
        )
        exchange.answer_json(changes_json(found))

    async def _change(self, call: HubRequest, exchange: Exchange, channel: str) -> None:
        query = call.query(ChangeQuery)
        patch, conditions = read_change(call.request)
        changed = await self._node.documents.settle(
            call.hub, call.identity, channel, patch, query.on(conditions), query.stamp(), "http"
        )
        tag = f'"{changed.outcome.epoch}.{changed.outcome.version}"'
        exchange.answer(200, changed_json(changed), headers=f"ETag: {tag}\r\n")

    async def _delete(self, call: HubRequest, exchange: Exchange, channel: str) -> None:
        call.query(NoQuery)
        if not call.identity.trusted:
            raise NotPermitted(f"only services delete documents; {channel!r} stays")
        await self._node.documents.settle(
            call.hub, call.identity, channel, b"", ChangeOptions("delete"), None, "http"
        )
        exchange.answer(204, b"")


def written(found: DocumentAnswer, channel: str) -> bytes:
    """The document's JSON text. Raises `NotFound`."""
    if not found.state.version or found.document is None:
        raise NotFound(f"the document {channel!r} was never written, or is deleted")
    return found.document


def etag(state: DocumentState) -> str:
    return f'"{state.epoch}.{state.version}"'


def read_change(request: Request) -> tuple[bytes, ChangeOptions]:
    """What a PUT or PATCH does to a document, under the conditions of its headers. Raises
    `UnsupportedMediaType`, `InvalidPayload` and `Malformed`."""
    conditions = _conditions(request)
    if request.method == b"PUT":
        return whole_patch(request.body), conditions
    kind = (request.header(b"content-type") or "").partition(";")[0].strip().lower()
    if kind == PATCH:
        return request.body, conditions
    if kind == MERGE_PATCH:
        return request.body, msgspec.structs.replace(conditions, kind="merge")
    raise UnsupportedMediaType(
        f"a document is not patched with {kind[:80]!r}; send {PATCH} or {MERGE_PATCH}",
        (PATCH, MERGE_PATCH),
    )


def whole_patch(text: bytes) -> bytes:
    """The change that replaces all of a document. Raises `InvalidPayload`."""
    return b'[{"op":"add","path":"","value":%b}]' % json_text(text)


def _conditions(request: Request) -> ChangeOptions:
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
    """Compared weakly, as RFC 9110 has it for reading."""
    return [each.strip().removeprefix("W/") for each in header.split(",")]


def changed_json(changed: Changed) -> bytes:
    outcome = changed.outcome
    return msgspec.json.encode(
        {
            "epoch": outcome.epoch,
            "version": outcome.version,
            "ts": outcome.timestamp,
            "duplicate": changed.duplicate,
        }
    )


def changes_json(found: DocumentAnswer) -> bytes:
    """With the document, where that was asked for and is the answer."""
    state = found.state
    changes = [
        {
            "version": each.version,
            "ts": each.timestamp,
            "author": each.author,
            "changeID": each.change_id,
            "ops": msgspec.Raw(each.ops),
        }
        for each in found.updates
    ]
    answer = {
        "epoch": state.epoch,
        "version": state.version,
        "changes": changes,
        "more": found.more,
    }
    if found.document is not None:
        answer["document"] = msgspec.Raw(found.document)
    return msgspec.json.encode(answer)
