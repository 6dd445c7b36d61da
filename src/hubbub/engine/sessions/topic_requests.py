"""Requests of a session about topics. They run beside its other requests, because a `get` may
wait for a minute."""

from __future__ import annotations

from hubbub.domain.errors import NotPermitted
from hubbub.domain.notices import Notice
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import TopicGet, TopicRequest
from hubbub.domain.topics import principal_of
from hubbub.engine.hub import SessionState
from hubbub.engine.sessions.background import BackgroundRequests
from hubbub.engine.topics.service import Topics
from hubbub.tasks import TaskSet

MAX_UNDER_WAY = 100
"""Requests about topics that one session may have under way, those that wait among them."""


class TopicRequests(BackgroundRequests[TopicRequest]):
    __slots__ = ("_topics",)

    subject = "topics"
    given_up = TopicGet

    def __init__(self, session: SessionState, tasks: TaskSet, topics: Topics) -> None:
        super().__init__(session, tasks, MAX_UNDER_WAY)
        self._topics = topics

    async def _answer(self, request: TopicRequest, identity: Identity) -> Notice:
        if not isinstance(request, TopicGet):
            return await self._topics.answer(self._session.hub, identity, request)
        notice = await self._get(request, identity)
        self._session.check_identity()
        if principal_of(self._session.identity) != principal_of(identity):
            raise NotPermitted("the session became someone else while it waited; ask again")
        return notice

    async def _get(self, request: TopicGet, identity: Identity) -> Notice:
        session = self._session
        await session.connection.drain()
        technology = session.connection.technology
        return await self._topics.answer(session.hub, identity, request, technology)
