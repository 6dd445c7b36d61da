"""Service calls of a session, executed concurrently with its other requests."""

from __future__ import annotations

from hubbub.domain.notices import CallAnswered, Enqueued, Notice
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import Call, Enqueue
from hubbub.engine.hub import SessionState
from hubbub.engine.rooms import Room
from hubbub.engine.services.calls import Services
from hubbub.engine.services.consent import Consent
from hubbub.engine.session_requests import Beside, Subject


class ServiceRequests(Room):
    def __init__(self, services: Services, consent: Consent, session_calls: int) -> None:
        self._services = services
        self._consent = consent
        subject = Subject("services", session_calls)
        self.session_requests = (
            Beside(Call, subject, self._call, only_waits=True),
            Beside(Enqueue, subject, self._submit),
        )

    def hub_changed(self, hub: str) -> None:
        self._consent.forget(hub)

    async def _call(self, session: SessionState, identity: Identity, request: Call) -> Notice:
        answer = await self._services.call(session.hub, identity, request, session.id)
        return CallAnswered(answer.payload, answer.content_type, request.req_id)

    async def _submit(self, session: SessionState, identity: Identity, request: Enqueue) -> Notice:
        technology = session.connection.technology
        message_id = await self._services.submit(
            session.hub, identity, request, technology, session.id
        )
        return Enqueued(message_id, request.req_id)
