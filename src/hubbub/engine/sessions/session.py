"""A session: one client connection, who it is, and what it follows.

A session is small on purpose (there are many): it has no task, queue or timer of its own. Requests
are handled in order; one that must wait for something holds back those behind it, except for those
about topics and services, which may wait for long.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from hubbub.domain import notices, requests
from hubbub.domain.errors import HubbubError, Internal, RateLimited
from hubbub.domain.limits import TokenBucket
from hubbub.domain.notices import Member, Notice, PublishResult
from hubbub.domain.permissions import Identity, Level
from hubbub.domain.requests import Request
from hubbub.engine.hub import Hub
from hubbub.engine.sessions.service_requests import ServiceRequests
from hubbub.engine.sessions.topic_requests import TopicRequests
from hubbub.ports.bus import PublishOutcome
from hubbub.ports.connection import Connection

if TYPE_CHECKING:
    from hubbub.engine.delivery.feed import Feed
    from hubbub.engine.node import Node

logger = logging.getLogger(__name__)

MAX_WAITING_REQUESTS = 256


class Session:
    """State and dispatch; the services of the node do the work."""

    __slots__ = (
        "_bucket",
        "_paused",
        "_refused",
        "_service_requests",
        "_topic_requests",
        "_waiting",
        "address",
        "closed",
        "connection",
        "feeds",
        "hub",
        "id",
        "identity",
        "last_seen",
        "node",
        "opened_at",
        "reason",
        "restore_hash",
        "spent_hash",
    )

    def __init__(
        self,
        node: Node,
        hub: Hub,
        session_id: str,
        connection: Connection,
        identity: Identity,
        address: str = "",
    ) -> None:
        self.node = node
        self.hub = hub
        self.id = session_id
        self.connection = connection
        self.identity = identity
        self.address = address
        self.feeds: dict[str, Feed] | None = None
        self.opened_at = node.clock.now()
        self.last_seen = node.clock.monotonic()
        self.closed = False
        self.reason: str | None = None
        """Why it ends, as far as anyone said: an error's code, or `closed` by the client."""
        self.restore_hash: bytes | None = None
        self.spent_hash: bytes | None = None
        """A restore key that was used to come here and dies with the next frame."""
        self._bucket: TokenBucket | None = None
        self._paused = False
        self._refused = 0
        self._service_requests: ServiceRequests | None = None
        self._topic_requests: TopicRequests | None = None
        self._waiting: deque[Request] | None = None
        """Requests behind one that is under way; None: nothing is."""

    # -- in -------------------------------------------------------------------------------------

    def receive(self, received: Iterable[Request]) -> None:
        """Handle what one frame brought."""
        self.last_seen = self.node.clock.monotonic()
        if self.spent_hash is not None:
            self.node.restorer.spend(self)
        for request in received:
            if self.closed:
                return
            if self._waiting is None:
                self._handle(request)
            else:
                self._wait(request)

    def _wait(self, request: Request) -> None:
        assert self._waiting is not None
        self._waiting.append(request)
        if len(self._waiting) >= MAX_WAITING_REQUESTS and not self._paused:
            self._paused = True
            self.connection.pause_reading()

    def _handle(self, request: Request) -> None:
        try:
            if isinstance(request, requests.Publish):
                self._publish(request)
            elif isinstance(request, requests.Ping):
                self.send(notices.Pong(request.req_id))
            elif not isinstance(request, requests.Pong):
                self._check_rate(1)
                self._handle_rarer(request)
        except HubbubError as error:
            self.send(notices.Failed(error, getattr(request, "req_id", 0)))

    def _handle_rarer(self, request: Request) -> None:
        if isinstance(request, requests.Rejected):
            self.hub.counters.messages_refused += 1
            self.send(notices.Failed(request.error, request.req_id))
        elif isinstance(request, requests.Close):
            self.reason = "closed"
            self.node.close(self, keep_state=False)
            self.connection.close()
        elif isinstance(request, requests.Subscribe):
            self.run(self.node.subscriptions.subscribe(self, request), request.req_id)
        elif isinstance(request, requests.Unsubscribe):
            self.node.subscriptions.unsubscribe(self, request)
        elif isinstance(request, requests.Authenticate):
            self.run(self.node.authentication.authenticate(self, request), request.req_id)
        elif isinstance(request, requests.Restore):
            self.run(self.node.restorer.restore(self, request), request.req_id)
        elif isinstance(request, requests.History):
            self.run(self.node.queries.history(self, request), request.req_id)
        elif isinstance(request, requests.PresenceQuery):
            self.run(self.node.queries.presence(self, request), request.req_id)
        elif isinstance(request, requests.TopicRequest):
            if self._topic_requests is None:
                self._topic_requests = TopicRequests(self)
            self._topic_requests.take(request)
        elif isinstance(request, requests.ServiceRequest):
            if self._service_requests is None:
                self._service_requests = ServiceRequests(self, self.node.limits.session_calls)
            self._service_requests.take(request)

    def _check_rate(self, amount: int) -> None:
        """Raises `RateLimited`; who goes on regardless is cut off. Services are trusted to know
        their pace: the quotas of their hub bound them."""
        limits = self.node.limits
        if not limits.session_messages_per_second or self.identity.level is not Level.CLIENT:
            return
        now = self.last_seen
        if self._bucket is None:
            self._bucket = TokenBucket(
                limits.session_messages_per_second, limits.session_burst, now
            )
        if self._bucket.take(amount, now):
            self.node.throttle.admit_in_session(self.hub.name, self.identity, self.address)
            self._refused = 0
            return
        error = RateLimited(
            f"more than {limits.session_messages_per_second:g} messages per second; slow down",
            self._bucket.seconds_until(amount),
        )
        self._refused += amount
        if self._refused > max(limits.session_burst, limits.session_messages_per_second):
            self.connection.disconnect(error)
        raise error

    # -- publishing -----------------------------------------------------------------------------

    def _publish(self, request: requests.Publish) -> None:
        items = request.items
        asked = sum(item.req_id is not None for item in items)
        acknowledgement = _Acknowledgement(self, asked) if asked else None
        for item in items:
            answer = acknowledgement.expect(item.req_id) if acknowledgement else None
            try:
                self._check_rate(1)
                self.node.check_identity(self)
                message_id = self.node.publisher.publish(
                    self.hub,
                    self.identity,
                    item,
                    answer.conclude if answer else None,
                    self.connection.technology,
                    self.id,
                )
                if answer is not None:
                    answer.message_id = message_id
            except HubbubError as error:
                self.hub.counters.messages_refused += 1
                if answer is not None:
                    answer.conclude(PublishOutcome(error=error))
        if acknowledgement is not None:
            acknowledgement.complete()
        if self.hub.delivery_queue.congested:
            for item in items:
                self.hub.hold_back(item.channel, self.connection)

    # -- out ------------------------------------------------------------------------------------

    def send(self, *said: Notice) -> None:
        encoder = self.connection.encoder
        self.connection.send(encoder.pack([encoder.encode(notice) for notice in said]))

    def member(self) -> Member:
        """This session, as presence shows it."""
        return Member(
            session_id=self.id,
            user_id=self.identity.user_id,
            extra=self.identity.extra,
            timestamp=int(self.node.clock.now() * 1000),
        )

    def ended(self) -> None:
        """The session is closed: what waits for it is given up."""
        for background in (self._topic_requests, self._service_requests):
            if background is not None:
                background.close()

    # -- requests that take time ----------------------------------------------------------------

    def run(self, work: Coroutine[Any, Any, None], req_id: int = 0) -> None:
        """Do this first; requests that come meanwhile wait."""
        self._waiting = deque()
        self.node.spawn(self._finish(work, req_id))

    async def _finish(self, work: Coroutine[Any, Any, None], req_id: int) -> None:
        """Do the work, then what waited behind it, until nothing is left or takes time again."""
        try:
            await work
        except HubbubError as error:
            self.send(notices.Failed(error, req_id))
        except asyncio.CancelledError:
            raise
        except Exception:
            logger.exception("a request failed in an unforeseen way")
            self.send(notices.Failed(Internal("the hub failed to handle the request"), req_id))
        waiting, self._waiting = self._waiting, None
        while waiting and not self.closed:
            if self._waiting is not None:
                self._waiting.extend(waiting)
                break
            self._handle(waiting.popleft())
        if self._paused and len(self._waiting or ()) < MAX_WAITING_REQUESTS:
            self._paused = False
            self.connection.resume_reading()


class _Acknowledgement:
    """Collects the results of a batch of publishes and sends them as one Ack, in order."""

    __slots__ = ("_answers", "_complete", "_pending", "_session")

    def __init__(self, session: Session, pending: int) -> None:
        self._session = session
        self._pending = pending
        self._answers: list[_Answer] = []
        self._complete = False

    def expect(self, req_id: int | None) -> _Answer | None:
        if req_id is None:
            return None
        answer = _Answer(self, req_id)
        self._answers.append(answer)
        return answer

    def complete(self) -> None:
        """All items of the batch were tried: the Ack may go when the last result is in."""
        self._complete = True
        self._send_if_done()

    def concluded(self) -> None:
        self._pending -= 1
        if self._complete:
            self._send_if_done()

    def _send_if_done(self) -> None:
        if self._pending:
            return
        answers, self._answers = self._answers, []  # they hold this, which would hold them
        if not self._session.closed:
            results = tuple(answer.result() for answer in answers)
            self._session.send(notices.Published(results))


class _Answer:
    """The result of one publish that somebody waits for."""

    __slots__ = ("_acknowledgement", "_outcome", "_req_id", "message_id")

    def __init__(self, acknowledgement: _Acknowledgement, req_id: int) -> None:
        self._acknowledgement = acknowledgement
        self._req_id = req_id
        self._outcome = PublishOutcome()
        self.message_id: str | None = None

    def conclude(self, outcome: PublishOutcome) -> None:
        self._outcome = outcome
        self._acknowledgement.concluded()

    def result(self) -> PublishResult:
        if self._outcome.error is not None:
            return PublishResult(self._req_id, error=self._outcome.error)
        outcome = self._outcome
        if outcome.duplicate:
            return PublishResult(self._req_id, outcome.message_id, outcome.serial, duplicate=True)
        return PublishResult(self._req_id, self.message_id, outcome.serial)
