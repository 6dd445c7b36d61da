"""A session's requests about documents."""

from __future__ import annotations

from hubbub.domain.documents.changes import (
    ChangeOptions,
    DocumentAnswer,
    DocumentQuery,
)
from hubbub.domain.documents.text import JsonText
from hubbub.domain.errors import HubbubError
from hubbub.domain.notices import DocumentChangeResult, DocumentFound
from hubbub.domain.requests import ChangeDocument, DocumentGet
from hubbub.engine.documents.feed import updated
from hubbub.engine.documents.service import Documents
from hubbub.engine.hub import SessionState
from hubbub.engine.large_work import SMALL_BYTES, HubLocks, in_turns
from hubbub.engine.rooms import Room
from hubbub.engine.session_requests import AtOnce, InTurn
from hubbub.ports.bus import PublishOutcome


class DocumentRequests(Room):
    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._preparing = HubLocks()
        self.session_requests = (
            InTurn(DocumentGet, self._get),
            AtOnce(ChangeDocument, self._change, rated=False),
        )

    async def _get(self, session: SessionState, request: DocumentGet) -> None:
        """Sends the document when the client has read most of what was sent before."""
        try:
            await session.connection.drain()
            session.check_identity()
            query = DocumentQuery(
                session.hub.name,
                request.channel,
                request.path,
                request.since,
                request.epoch,
                request.at,
                request.at_time,
            )
            reader = session.reader_of(request.channel).identity
            found = await self._documents.get(session.hub, reader, query)
        except HubbubError as error:
            session.send(DocumentFound(request.channel, error=error, req_id=request.req_id))
            return
        session.send(_found(request, found, await self._text(session, found.document)))

    async def _text(self, session: SessionState, document: bytes | None) -> JsonText | None:
        if document is None:
            return None
        prepare = session.connection.encoder.prepare
        if prepare is None or len(document) < SMALL_BYTES:
            return JsonText(document)
        async with self._preparing.of(session.hub.name):
            return await in_turns(prepare(JsonText(document)))

    def _change(self, session: SessionState, request: ChangeDocument) -> None:
        """Applies a change in the order of the session's messages; the response comes when it is on
        disk. A change over the session's rate limit gets a response of the same form."""
        reply = _Reply(session, request) if request.req_id is not None else None
        try:
            session.check_rate()
            session.check_identity()
            options = ChangeOptions(
                expected_version=request.expected_version,
                epoch=request.epoch,
                change_id=request.change_id,
            )
            item = self._documents.item(
                request.channel, request.ops.text, options, request.producer
            )
            technology = session.connection.technology
            self._documents.change(
                session.hub, session.identity, item, reply, technology, session.id
            )
        except HubbubError as error:
            session.hub.counters.messages_refused += 1
            if reply is not None:
                reply(PublishOutcome(error=error))


class _Reply:
    """Sends the result of a change to the client."""

    __slots__ = ("_request", "_session")

    def __init__(self, session: SessionState, request: ChangeDocument) -> None:
        self._session = session
        self._request = request

    def __call__(self, outcome: PublishOutcome) -> None:
        if not self._session.closed:
            self._session.send(_changed(self._request, outcome))


def _changed(request: ChangeDocument, outcome: PublishOutcome) -> DocumentChangeResult:
    req_id = request.req_id or 0
    error, change = outcome.error, outcome.change
    if error is not None:
        details = error.details
        return DocumentChangeResult(
            request.channel,
            details.get("epoch", ""),
            details.get("version"),
            error=error,
            op_index=details.get("opIndex"),
            reason=details.get("reason"),
            req_id=req_id,
        )
    assert change is not None
    return DocumentChangeResult(
        request.channel,
        change.epoch,
        change.version,
        change.timestamp,
        outcome.duplicate,
        req_id=req_id,
    )


def _found(request: DocumentGet, found: DocumentAnswer, document: JsonText | None) -> DocumentFound:
    state = found.state
    return DocumentFound(
        request.channel,
        state.epoch,
        state.version,
        state.timestamp,
        document,
        tuple(updated(request.channel, each) for each in found.updates),
        found.more,
        request.req_id,
    )
