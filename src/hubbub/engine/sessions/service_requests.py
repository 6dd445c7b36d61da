"""Requests of a session to services: a slow one holds nothing else back."""

from __future__ import annotations

from hubbub.domain import notices, requests
from hubbub.domain.notices import Notice
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import ServiceRequest
from hubbub.engine.hub import SessionState
from hubbub.engine.services.calls import Services
from hubbub.engine.sessions.background import BackgroundRequests
from hubbub.tasks import TaskSet


class ServiceRequests(BackgroundRequests[ServiceRequest]):
    __slots__ = ("_services",)

    subject = "services"
    given_up = requests.Call

    def __init__(
        self, session: SessionState, tasks: TaskSet, services: Services, limit: int
    ) -> None:
        super().__init__(session, tasks, limit)
        self._services = services

    async def _answer(self, request: ServiceRequest, identity: Identity) -> Notice:
        if isinstance(request, requests.Call):
            return await self._call(request, identity)
        session = self._session
        message_id = await self._services.submit(
            session.hub, identity, request, session.connection.technology, session.id
        )
        return notices.Enqueued(message_id, request.req_id)

    async def _call(self, request: requests.Call, identity: Identity) -> Notice:
        session = self._session
        answer = await self._services.call(session.hub, identity, request, session.id)
        return notices.CallAnswered(answer.payload, answer.content_type, request.req_id)
