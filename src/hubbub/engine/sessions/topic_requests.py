"""Requests of a session about topics. They run beside its other requests, because a `get` may
wait for a minute."""

from __future__ import annotations

from hubbub.domain import notices, requests
from hubbub.domain.errors import NotPermitted
from hubbub.domain.notices import Notice
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import TopicRequest
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

    def __init__(self, session: SessionState, tasks: TaskSet, topics: Topics) -> None:
        super().__init__(session, tasks, MAX_UNDER_WAY)
        self._topics = topics

    async def _answer(self, request: TopicRequest, identity: Identity) -> Notice:
        topics, hub = self._topics, self._session.hub
        if isinstance(request, requests.TopicGet):
            return await self._wait_and_check(request, identity)
        if isinstance(request, requests.TopicAck):
            floor = await topics.acknowledge(
                hub,
                identity,
                request.topic,
                request.name,
                request.serials,
                request.up_to,
                request.consumer,
                request.give_back,
            )
            return notices.TopicAcked(request.topic, request.name, floor, request.req_id)
        if isinstance(request, requests.TopicSubscribe):
            info = await topics.subscribe(
                hub, identity, request.topic, request.name, request.options, request.start
            )
            return notices.TopicSubscribed(info, request.req_id)
        if isinstance(request, requests.TopicUnsubscribe):
            await topics.unsubscribe(hub, identity, request.topic, request.name)
            return notices.TopicUnsubscribed(request.topic, request.name, request.req_id)
        if isinstance(request, requests.ProducerOpen):
            state = await topics.open_producer(hub, identity, request.topic, request.producer)
            return notices.ProducerOpened(
                request.topic, request.producer, state.fence, state.sequence, request.req_id
            )
        return notices.TopicSubscriptions(
            tuple(await topics.list_own(hub, identity)), request.req_id
        )

    async def _wait_and_check(self, request: requests.TopicGet, identity: Identity) -> Notice:
        notice = await self._wait_for(self._get(request, identity))
        self._session.check_identity()
        if principal_of(self._session.identity) != principal_of(identity):
            raise NotPermitted("the session became someone else while it waited; ask again")
        return notice

    async def _get(self, request: requests.TopicGet, identity: Identity) -> Notice:
        session = self._session
        await session.connection.drain()
        topics = self._topics
        if request.topic is None:
            each = await topics.get_each(session.hub, identity, request.name)
            found = {topic: notices.TopicArticles(tuple(got)) for topic, got in each.items()}
            return notices.EachTopicMessages(request.name, found, request.req_id)
        articles = await topics.get(
            session.hub,
            identity,
            request.topic,
            request.name,
            request.limit,
            request.wait_seconds,
            request.consumer,
            request.ack_up_to,
            request.after,
        )
        return notices.TopicMessages(request.topic, request.name, tuple(articles), request.req_id)
