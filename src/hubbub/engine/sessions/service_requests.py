"""Requests of a session to services: a slow one holds nothing else back."""

from __future__ import annotations

from hubbub.domain import notices, requests
from hubbub.domain.notices import Notice
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import ServiceRequest
from hubbub.engine.sessions.background import BackgroundRequests


class ServiceRequests(BackgroundRequests[ServiceRequest]):
    __slots__ = ()

    subject = "services"

    async def _answer(self, request: ServiceRequest, identity: Identity) -> Notice:
        if isinstance(request, requests.Call):
            return await self._wait_for(self._call(request, identity))
        session = self._session
        message_id = await session.node.services.submit(
            session.hub, identity, request, session.connection.technology, session.id
        )
        return notices.Enqueued(message_id, request.req_id)

    async def _call(self, request: requests.Call, identity: Identity) -> Notice:
        session = self._session
        answer = await session.node.services.call(session.hub, identity, request, session.id)
        return notices.CallAnswered(answer.payload, answer.content_type, request.req_id)
