"""Requests of a session about topics. They run beside its other requests, because a `get` may
wait for a minute."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from hubbub.domain import notices, requests
from hubbub.domain.errors import HubbubError, Internal, Limited, NotPermitted
from hubbub.domain.notices import Notice
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import TopicRequest
from hubbub.domain.topics import principal_of

if TYPE_CHECKING:
    from hubbub.engine.session import Session

logger = logging.getLogger(__name__)

MAX_UNDER_WAY = 100
"""Requests about topics that one session may have under way, those that wait among them."""


class TopicDesk:
    """One for each session that asked for it; a session that never does has none."""

    __slots__ = ("_gets", "_session", "_under_way")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._under_way = 0
        self._gets: set[asyncio.Task[Notice]] = set()

    def take(self, request: TopicRequest) -> None:
        """Answer in time, in whatever order. Raises what speaks against it at once."""
        session = self._session
        session.node.check_identity(session)
        if self._under_way >= MAX_UNDER_WAY:
            raise Limited(
                f"{MAX_UNDER_WAY} requests about topics are under way in this session; "
                "wait for an answer"
            )
        self._under_way += 1
        session.node.spawn(self._serve(request, session.identity))

    def close(self) -> None:
        """The session is gone: nobody waits any more. What changes something is not cut in half."""
        for task in self._gets:
            task.cancel()

    async def _serve(self, request: TopicRequest, identity: Identity) -> None:
        try:
            notice = await self._answer(request, identity)
        except HubbubError as error:
            notice = notices.Failed(error, request.req_id)
        except asyncio.CancelledError:
            if not self._session.closed:
                raise
            return
        except Exception:
            logger.exception("a request about a topic failed in an unforeseen way")
            failure = Internal("the hub failed to handle the request")
            notice = notices.Failed(failure, request.req_id)
        finally:
            self._under_way -= 1
        if not self._session.closed:
            self._session.send(notice)

    async def _answer(self, request: TopicRequest, identity: Identity) -> Notice:
        topics, hub = self._session.node.topics, self._session.hub
        if isinstance(request, requests.TopicGet):
            return await self._wait_for(request, identity)
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

    async def _wait_for(self, request: requests.TopicGet, identity: Identity) -> Notice:
        """A task of its own, which can be given up."""
        task = asyncio.get_running_loop().create_task(self._get(request, identity))
        self._gets.add(task)
        try:
            notice = await task
        finally:
            self._gets.discard(task)
        self._session.node.check_identity(self._session)
        if principal_of(self._session.identity) != principal_of(identity):
            raise NotPermitted("the session became someone else while it waited; ask again")
        return notice

    async def _get(self, request: requests.TopicGet, identity: Identity) -> Notice:
        session = self._session
        await session.connection.drain()
        topics = session.node.topics
        if request.topic is None:
            each = await topics.get_each(session.hub, identity, request.name)
            found = {topic: tuple(articles) for topic, articles in each.items()}
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
