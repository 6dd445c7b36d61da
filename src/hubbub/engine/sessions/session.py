"""A session: one client connection, who it is, and what it follows.

A session is small on purpose (there are many): it has no task, queue or timer of its own. Requests
are handled in order; one that must wait for something holds back those behind it, except for those
about topics and services, which may wait for long.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hubbub.domain import notices, requests
from hubbub.domain.errors import (
    HubbubError,
    Internal,
    NotPermitted,
    QuotaExceeded,
    RateLimited,
)
from hubbub.domain.limits import TokenBucket
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import PublishItem, Request
from hubbub.domain.rules import HubConfiguration
from hubbub.engine.access.throttle import Throttle
from hubbub.engine.access.tokens import Tokens
from hubbub.engine.commands.service import Commands
from hubbub.engine.hub import Hub, SessionState
from hubbub.engine.limits import EngineLimits
from hubbub.engine.publishing import Publisher
from hubbub.engine.services.calls import Services
from hubbub.engine.sessions.acknowledgements import Acknowledgement
from hubbub.engine.sessions.authentication import Authentication
from hubbub.engine.sessions.command_requests import CommandRequests
from hubbub.engine.sessions.document_requests import DocumentRequests
from hubbub.engine.sessions.filtering import SessionFilters
from hubbub.engine.sessions.journal import Chronicle
from hubbub.engine.sessions.notification_requests import NotificationRequests
from hubbub.engine.sessions.queries import Queries
from hubbub.engine.sessions.restore import Restorer
from hubbub.engine.sessions.restore_keys import RestoreKeys
from hubbub.engine.sessions.service_requests import ServiceRequests
from hubbub.engine.sessions.subscriptions import Subscriptions
from hubbub.engine.sessions.topic_requests import TopicRequests
from hubbub.engine.topics.service import Topics
from hubbub.ports.bus import PublishOutcome, PublishReply
from hubbub.ports.clock import Clock
from hubbub.ports.connection import Connection
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What sessions can do at their node: one object for all of them."""

    clock: Clock
    limits: EngineLimits
    tokens: Tokens
    throttle: Throttle
    publisher: Publisher
    subscriptions: Subscriptions
    authentication: Authentication
    restore_keys: RestoreKeys
    restorer: Restorer
    queries: Queries
    filters: SessionFilters
    topics: Topics
    notifications: NotificationRequests
    document_requests: DocumentRequests
    services: Services
    commands: Commands
    chronicle: Chronicle
    tasks: TaskSet
    close: Callable[[SessionState, bool], None]
    """Takes the session off its node; its restore key goes on to work if the flag is set."""
    close_soon: Callable[[SessionState], None]
    """The same, with the key working on, in turns of the loop where many sessions end at once."""
    end: Callable[[SessionState, HubbubError], None]
    """Cuts the session off, with no way back by its restore key."""


class Session(SessionState):
    """Handles the requests of its client, one after the other."""

    __slots__ = (
        "_bucket",
        "_can",
        "_command_requests",
        "_permitted",
        "_refused",
        "_service_requests",
        "_topic_requests",
        "busy",
    )

    def __init__(
        self,
        can: Capabilities,
        hub: Hub,
        connection: Connection,
        identity: Identity,
        address: str = "",
    ) -> None:
        super().__init__(hub, connection, identity, address, can.clock, can.tokens)
        self._can = can
        self._bucket: TokenBucket | None = None
        self.busy = 0
        """A request is under way that the next one has to wait for, and concerns so many channels;
        0: none is."""
        self._permitted: tuple[str, Identity, HubConfiguration] | None = None
        """The channel that was last published to, by whom and under which settings."""
        self._refused = 0
        self._service_requests: ServiceRequests | None = None
        self._command_requests: CommandRequests | None = None
        self._topic_requests: TopicRequests | None = None

    # -- access that ends -----------------------------------------------------------------------

    def lose(self, channels: Sequence[str], error: NotPermitted) -> None:
        self._can.subscriptions.lose(self, channels, error)

    def end(self, error: HubbubError) -> None:
        self._can.end(self, error)

    # -- in -------------------------------------------------------------------------------------

    def hear(self) -> None:
        """A message came in: the client lives, and knows its new restore key if it had to get
        one."""
        self.last_seen = self.clock.monotonic()
        if self.spent_hash is not None:
            self._can.restore_keys.spend(self)

    def receive(self, received: Iterator[Request], most: int) -> int:
        """Handle requests one after the other, until one takes time or so many were handled.
        Answers how many. Where one takes time, the connection's `resume_reading` is called after
        it."""
        handled = 0
        while handled < most and not (self.busy or self.closed):
            request = next(received, None)
            if request is None:
                break
            handled += 1
            self._handle(request)
        return handled

    def _handle(self, request: Request) -> None:
        try:
            if isinstance(request, requests.Publish):
                self._publish(request)
            elif isinstance(request, requests.Ping):
                self.send(notices.Pong(request.req_id))
            elif isinstance(request, requests.DocumentChange):
                self._can.document_requests.change(self, request, self._check_rate)
            elif isinstance(request, requests.SendCommand | requests.AnswerCommand):
                self._check_rate(1)
                self._take_command(request)
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
            self._can.close(self, False)
            self.connection.close()
        elif isinstance(request, requests.Subscribe):
            work = self._can.subscriptions.subscribe(self, request)
            self.run(work, request.req_id, len(request.channels))
        elif isinstance(request, requests.Unsubscribe):
            self._can.subscriptions.unsubscribe(self, request)
        elif isinstance(request, requests.Authenticate):
            self.run(self._can.authentication.authenticate(self, request), request.req_id)
        elif isinstance(request, requests.Restore):
            self.run(self._can.restorer.restore(self, request), request.req_id)
        elif isinstance(request, requests.History):
            self.run(self._can.queries.history(self, request), request.req_id)
        elif isinstance(request, requests.Threads):
            self.run(self._can.queries.threads(self, request), request.req_id)
        elif isinstance(request, requests.FilterRequest):
            self.run(self._can.filters.answer(self, request), request.req_id)
        elif isinstance(request, requests.PresenceQuery):
            self.run(self._can.queries.presence(self, request), request.req_id)
        elif isinstance(request, requests.NotificationRequest):
            req_id = request.req_id or 0
            self.run(self._can.notifications.answer(self, request), req_id)
        elif isinstance(request, requests.DocumentGet):
            self.run(self._can.document_requests.get(self, request), request.req_id)
        elif isinstance(request, requests.TopicRequest):
            if self._topic_requests is None:
                self._topic_requests = TopicRequests(self, self._can.tasks, self._can.topics)
            self._topic_requests.take(request)
        elif isinstance(request, requests.ServiceRequest):
            if self._service_requests is None:
                self._service_requests = ServiceRequests(
                    self, self._can.tasks, self._can.services, self._can.limits.session_calls
                )
            self._service_requests.take(request)

    def _take_command(self, request: requests.SendCommand | requests.AnswerCommand) -> None:
        if self._command_requests is None:
            self._command_requests = CommandRequests(
                self, self._can.tasks, self._can.commands, self._can.limits.session_calls
            )
        self._command_requests.take(request)

    def _check_rate(self, amount: int) -> None:
        """Raises `RateLimited`; who goes on regardless is cut off. Services are trusted to know
        their pace: the quotas of their hub bound them."""
        limits = self._can.limits
        if not limits.session_messages_per_second or self.identity.trusted:
            return
        now = self.clock.monotonic()
        if self._bucket is None:
            self._bucket = TokenBucket(
                limits.session_messages_per_second, limits.session_burst, now
            )
        if self._bucket.take(amount, now):
            self._can.throttle.admit_in_session(self.hub.name, self.identity, self.address)
            self._refused = 0
            return
        error = RateLimited(
            f"more than {limits.session_messages_per_second:g} messages per second; slow down",
            self._bucket.seconds_until(amount),
        )
        self._count_refused(amount, error)
        raise error

    def _count_refused(self, amount: int, error: RateLimited | QuotaExceeded) -> None:
        limits = self._can.limits
        if not isinstance(error, RateLimited):
            return
        self._refused += amount
        if self._refused > max(limits.session_burst, limits.session_messages_per_second):
            self.connection.disconnect(error)

    # -- publishing -----------------------------------------------------------------------------

    def _publish(self, request: requests.Publish) -> None:
        """Where an item is refused for a limit, so are those behind it: they must not overtake it
        when its publisher tries again."""
        items, acknowledgement = request.items, None
        limit: RateLimited | QuotaExceeded | None = None
        for item in items:
            answer = None
            if item.req_id is not None:
                acknowledgement = acknowledgement or Acknowledgement(self)
                answer = acknowledgement.expect(item.req_id)
            try:
                if limit is not None:
                    self._count_refused(1, limit)
                    raise limit
                self._check_rate(1)
                self.check_identity()
                message_id = self._hand_on(item, answer.conclude if answer else None)
                if answer is not None:
                    answer.message_id = message_id
            except HubbubError as error:
                if isinstance(error, RateLimited | QuotaExceeded):
                    limit = error
                self.hub.counters.messages_refused += 1
                if answer is not None:
                    answer.conclude(PublishOutcome(error=error))
        if acknowledgement is not None:
            acknowledgement.concluded()
        if self.hub.delivery_queue.congested:
            for item in items:
                self.hub.hold_back(item.channel, self.connection)

    def _hand_on(self, item: PublishItem, reply: PublishReply | None) -> str:
        """A session mostly publishes to the channel that it published to before: whether it may
        is found out once, for the same identity under the same settings."""
        hub, identity, known = self.hub, self.identity, self._permitted
        permitted = (
            known is not None
            and known[0] == item.channel
            and known[1] is identity
            and known[2] is hub.configuration
        )
        configuration = hub.configuration
        message_id = self._can.publisher.publish(
            hub, identity, item, reply, self.connection.technology, self.id, permitted
        )
        if not permitted and item.producer is None:
            self._permitted = item.channel, identity, configuration
        return message_id

    # -- the end --------------------------------------------------------------------------------

    def disconnected(self, keep_state: bool = True) -> None:
        """The connection is gone, or about to be. `keep_state`: its client may restore it."""
        self._can.close(self, keep_state)

    def lost(self) -> None:
        """The connection is gone; the client may restore the session."""
        self._can.close_soon(self)

    def cut_off(self, unread_bytes: int) -> None:
        """The client reads too slowly: this many bytes that wait for it are dropped."""
        self.hub.counters.slow_consumers += 1
        self._can.chronicle.cut_off(self, unread_bytes)

    def cancel_requests(self) -> None:
        for background in (self._topic_requests, self._service_requests):
            if background is not None:
                background.close()

    # -- requests that take time ----------------------------------------------------------------

    def run(self, work: Coroutine[Any, Any, None], req_id: int = 0, channels: int = 1) -> None:
        """Do this first; requests that come meanwhile wait."""
        self.busy = channels or 1
        self.connection.pause_reading()
        self._can.tasks.start(self._finish(work, req_id))

    async def _finish(self, work: Coroutine[Any, Any, None], req_id: int) -> None:
        try:
            await work
        except HubbubError as error:
            self.send(notices.Failed(error, req_id))
        except asyncio.CancelledError:
            raise
        except Exception:
            logger.exception("a request failed in an unforeseen way")
            self.send(notices.Failed(Internal("the hub failed to handle the request"), req_id))
        self.busy = 0
        self.connection.resume_reading()
