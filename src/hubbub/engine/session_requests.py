"""How a room answers a session's request: at once, in the request's turn, or concurrently with the
session's other requests.

A room declares a `SessionRequest` for each request that it answers. A session finds it by the
request's type."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from hubbub.domain import notices
from hubbub.domain.errors import HubbubError, Internal, Limited
from hubbub.domain.notices import Notice
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import Request

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=Request)
T = TypeVar("T")


class RequestingSession(Protocol):
    """The interface of a session that request handlers are called through."""

    identity: Identity
    closed: bool

    def check_rate(self, amount: int = 1) -> None:
        """Raises `RateLimited`."""

    def check_identity(self) -> None:
        """Raises `InvalidToken` and `NotAuthenticated`."""

    def run(self, work: Coroutine[Any, Any, None], req_id: int = 0, channels: int = 1) -> None:
        """Runs work; later requests wait until it ends."""

    def run_beside(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Runs work concurrently with later requests."""

    def under_way(self, subject: Subject) -> UnderWay:
        """The session's requests in progress about the subject."""

    def send(self, *said: Notice) -> None: ...


class SessionRequest(ABC, Generic[R]):
    """The declaration of one request: its type, and how it is answered."""

    __slots__ = ("kind",)

    def __init__(self, kind: type[R]) -> None:
        self.kind = kind

    @abstractmethod
    def take(self, session: RequestingSession, request: R) -> None:
        """Raises the `HubbubError` to send to the client."""


class AtOnce(SessionRequest[R]):
    """The handler answers before it returns."""

    __slots__ = ("_handler", "_rated")

    def __init__(
        self, kind: type[R], handler: Callable[[Any, R], None], rated: bool = True
    ) -> None:
        """With `rated` False, the handler decides whether the request counts towards the session's
        rate limit."""
        super().__init__(kind)
        self._handler = handler
        self._rated = rated

    def take(self, session: RequestingSession, request: R) -> None:
        if self._rated:
            session.check_rate()
        self._handler(session, request)


class InTurn(SessionRequest[R]):
    """The session's next request waits until the handler has answered this one."""

    __slots__ = ("_channels_of", "_handler")

    def __init__(
        self,
        kind: type[R],
        handler: Callable[[Any, R], Coroutine[Any, Any, None]],
        channels_of: Callable[[R], int] | None = None,
    ) -> None:
        """`channels_of` returns how many channels the request concerns, if that can be more than
        one. Each of them uses a share of the connection's time slice."""
        super().__init__(kind)
        self._handler = handler
        self._channels_of = channels_of

    def take(self, session: RequestingSession, request: R) -> None:
        session.check_rate()
        channels = 1 if self._channels_of is None else self._channels_of(request)
        session.run(self._handler(session, request), _req_id(request), channels)


class Subject:
    """A group of requests that run concurrently. One session may have at most `limit` of them in
    progress."""

    __slots__ = ("limit", "name")

    def __init__(self, name: str, limit: int) -> None:
        self.name = name
        self.limit = limit


class UnderWay:
    """The requests of one session about one subject that are in progress."""

    __slots__ = ("count", "waiting")

    def __init__(self) -> None:
        self.count = 0
        self.waiting: set[asyncio.Task[None]] = set()
        """Requests that only wait and change nothing."""

    def ended(self, work: Coroutine[Any, Any, object], task: asyncio.Task[None]) -> None:
        self.waiting.discard(task)
        work.close()  # it has not begun where its task was cancelled at once

    def give_up(self) -> None:
        """Called when the session closes. Requests that change something are completed."""
        for task in self.waiting:
            task.cancel()


class Beside(SessionRequest[R]):
    """The handler may wait for long: the session's later requests are handled meanwhile, and
    answers come in any order."""

    __slots__ = ("_handler", "_only_waits", "_subject")

    def __init__(
        self,
        kind: type[R],
        subject: Subject,
        handler: Callable[[Any, Identity, R], Coroutine[Any, Any, Notice | None] | None],
        only_waits: bool = False,
    ) -> None:
        """The handler receives the identity that the session has when the request arrives, since it
        may change. It returns None if it has already answered. `only_waits`: the request changes
        nothing, and is cancelled when the session closes."""
        super().__init__(kind)
        self._subject = subject
        self._handler = handler
        self._only_waits = only_waits

    def take(self, session: RequestingSession, request: R) -> None:
        session.check_rate()
        session.check_identity()
        subject, under_way = self._subject, session.under_way(self._subject)
        if under_way.count >= subject.limit:
            raise Limited(
                f"{subject.limit} requests about {subject.name} are under way in this session; "
                "wait for an answer"
            )
        work = self._handler(session, session.identity, request)
        if work is None:
            return
        under_way.count += 1
        task = session.run_beside(self._serve(session, request, work, under_way))
        if self._only_waits:
            under_way.waiting.add(task)
            task.add_done_callback(partial(under_way.ended, work))

    async def _serve(
        self,
        session: RequestingSession,
        request: R,
        work: Coroutine[Any, Any, Notice | None],
        under_way: UnderWay,
    ) -> None:
        notice: Notice | None
        try:
            notice = await work
        except HubbubError as error:
            notice = notices.Failed(error, _req_id(request))
        except asyncio.CancelledError:
            if not session.closed:
                raise
            return
        except Exception:
            logger.exception("a request about %s failed in an unforeseen way", self._subject.name)
            failure = Internal("the hub failed to handle the request")
            notice = notices.Failed(failure, _req_id(request))
        finally:
            under_way.count -= 1
        if notice is not None and not session.closed:
            session.send(notice)


SessionRequests = Mapping[type[Request], SessionRequest[Any]]
"""All requests of sessions, by type."""


def by_type(declared: Iterable[SessionRequest[Any]]) -> SessionRequests:
    """Raises `ValueError` if two rooms declare the same request."""
    table: dict[type[Request], SessionRequest[Any]] = {}
    for each in declared:
        if table.setdefault(each.kind, each) is not each:
            raise ValueError(f"two rooms answer {each.kind.__name__}")
    return table


def _req_id(request: Request) -> int:
    """The id chosen by the client; 0 if there is none."""
    return getattr(request, "req_id", None) or 0
