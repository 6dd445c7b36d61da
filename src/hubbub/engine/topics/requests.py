"""Topic requests of a session, executed concurrently with its other requests since a `get` may wait
for a minute."""

from __future__ import annotations

from hubbub.domain.errors import NotPermitted
from hubbub.domain.notices import Notice
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import (
    ProducerOpen,
    TopicAck,
    TopicGet,
    TopicList,
    TopicRequest,
    TopicSubscribe,
    TopicUnsubscribe,
)
from hubbub.domain.topics import principal_of
from hubbub.engine.hub import SessionState
from hubbub.engine.rooms import Room
from hubbub.engine.session_requests import Beside, Subject
from hubbub.engine.topics.service import Topics

MAX_UNDER_WAY = 100
"""Maximum number of a session's topic requests in progress, including waiting ones."""


class TopicRequests(Room):
    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        subject = Subject("topics", MAX_UNDER_WAY)
        self.session_requests = (
            Beside(TopicSubscribe, subject, self._answer),
            Beside(TopicUnsubscribe, subject, self._answer),
            Beside(TopicGet, subject, self._get, only_waits=True),
            Beside(TopicAck, subject, self._answer),
            Beside(ProducerOpen, subject, self._answer),
            Beside(TopicList, subject, self._answer),
        )

    async def stop(self) -> None:
        self._topics.draining = True

    async def _answer(
        self, session: SessionState, identity: Identity, request: TopicRequest
    ) -> Notice:
        return await self._topics.answer(session.hub, identity, request)

    async def _get(self, session: SessionState, identity: Identity, request: TopicGet) -> Notice:
        await session.connection.drain()
        technology = session.connection.technology
        notice = await self._topics.answer(session.hub, identity, request, technology)
        session.check_identity()
        if principal_of(session.identity) != principal_of(identity):
            raise NotPermitted("the session became someone else while it waited; ask again")
        return notice
