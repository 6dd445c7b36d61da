"""A session's requests about documents."""

from __future__ import annotations

from collections.abc import Callable

from hubbub.domain.documents.changes import ChangeOptions, DocumentAnswer, DocumentQuery
from hubbub.domain.documents.text import JsonText
from hubbub.domain.errors import HubbubError
from hubbub.domain.notices import DocumentChanged, DocumentFound
from hubbub.domain.requests import DocumentChange, DocumentGet
from hubbub.engine.delivery.document_feed import updated
from hubbub.engine.documents.service import Documents
from hubbub.engine.hub import SessionState
from hubbub.ports.bus import PublishOutcome


class DocumentRequests:
    """Serves all sessions of a node."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    async def get(self, session: SessionState, request: DocumentGet) -> None:
        """Answered when the client has read most of what it was sent before."""
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
        session.send(_found(request, found))

    def change(
        self, session: SessionState, request: DocumentChange, admit: Callable[[int], None]
    ) -> None:
        """In its place among the session's messages; answered when it is on disk. `admit` raises
        `RateLimited`."""
        reply = _Reply(session, request) if request.req_id is not None else None
        try:
            admit(1)
            session.check_identity()
            self._documents.change(
                session.hub,
                session.identity,
                request.channel,
                request.ops.text,
                ChangeOptions(
                    expected_version=request.expected_version,
                    epoch=request.epoch,
                    change_id=request.change_id,
                ),
                reply,
                request.producer,
                session.connection.technology,
                session.id,
            )
        except HubbubError as error:
            session.hub.counters.messages_refused += 1
            if reply is not None:
                reply(PublishOutcome(error=error))


class _Reply:
    """Tells the client what became of a change."""

    __slots__ = ("_request", "_session")

    def __init__(self, session: SessionState, request: DocumentChange) -> None:
        self._session = session
        self._request = request

    def __call__(self, outcome: PublishOutcome) -> None:
        if not self._session.closed:
            self._session.send(_changed(self._request, outcome))


def _changed(request: DocumentChange, outcome: PublishOutcome) -> DocumentChanged:
    req_id = request.req_id or 0
    error, change = outcome.error, outcome.change
    if error is not None:
        details = error.details
        return DocumentChanged(
            request.channel,
            details.get("epoch", ""),
            details.get("version"),
            error=error,
            op_index=details.get("opIndex"),
            reason=details.get("reason"),
            req_id=req_id,
        )
    assert change is not None
    return DocumentChanged(
        request.channel,
        change.epoch,
        change.version,
        change.timestamp,
        outcome.duplicate,
        req_id=req_id,
    )


def _found(request: DocumentGet, found: DocumentAnswer) -> DocumentFound:
    state = found.state
    return DocumentFound(
        request.channel,
        state.epoch,
        state.version,
        state.timestamp,
        JsonText(found.document) if found.document is not None else None,
        tuple(updated(request.channel, each) for each in found.updates),
        found.more,
        request.req_id,
    )
