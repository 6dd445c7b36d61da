"""Requests of a session that run beside its others, because they may wait for long."""

from __future__ import annotations

import asyncio
import logging
from typing import Generic, TypeVar

from hubbub.domain import notices
from hubbub.domain.errors import HubbubError, Internal, Limited
from hubbub.domain.notices import Notice
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import ServiceRequest, TopicRequest
from hubbub.engine.hub import SessionState
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=TopicRequest | ServiceRequest)


class BackgroundRequests(Generic[R]):
    """The requests of one session about one subject; made when the first one comes."""

    __slots__ = ("_limit", "_session", "_tasks", "_under_way", "_waiting")

    subject = ""
    """What the requests are about, in words."""
    given_up: type[TopicRequest | ServiceRequest]
    """Requests that only wait, which end with the session."""

    def __init__(self, session: SessionState, tasks: TaskSet, limit: int) -> None:
        self._session = session
        self._tasks = tasks
        self._limit = limit
        self._under_way = 0
        self._waiting: set[asyncio.Task[None]] = set()

    def take(self, request: R) -> None:
        """Answer when the answer is there, in any order. Raises `InvalidToken`,
        `NotAuthenticated` or `Limited` at once."""
        self._session.check_identity()
        if self._under_way >= self._limit:
            raise Limited(
                f"{self._limit} requests about {self.subject} are under way in this session; "
                "wait for an answer"
            )
        self._under_way += 1
        task = self._tasks.start(self._serve(request, self._session.identity))
        if isinstance(request, self.given_up):
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)

    def close(self) -> None:
        """The session is gone: nobody waits any more. What changes something is not cut in half."""
        for task in self._waiting:
            task.cancel()

    async def _answer(self, request: R, identity: Identity) -> Notice:
        raise NotImplementedError

    async def _serve(self, request: R, identity: Identity) -> None:
        try:
            notice = await self._answer(request, identity)
        except HubbubError as error:
            notice = notices.Failed(error, request.req_id)
        except asyncio.CancelledError:
            if not self._session.closed:
                raise
            return
        except Exception:
            logger.exception("a request about %s failed in an unforeseen way", self.subject)
            failure = Internal("the hub failed to handle the request")
            notice = notices.Failed(failure, request.req_id)
        finally:
            self._under_way -= 1
        if not self._session.closed:
            self._session.send(notice)
