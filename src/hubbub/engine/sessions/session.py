"""A session: one client connection, its identity, and the channels it follows.

A session is small on purpose, since there are many: it has no task, queue or timer of its own.
Requests are handled in order; one that must wait delays later ones, unless it is declared as
concurrent (`engine.session_requests`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from hubbub.domain import notices, requests
from hubbub.domain.errors import (
    HubbubError,
    Internal,
    NotPermitted,
    QuotaExceeded,
    RateLimited,
)
from hubbub.domain.limits import TokenBucket
from hubbub.domain.notices import PublishResult
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import PublishItem, Request
from hubbub.domain.rules import HubConfiguration
from hubbub.engine.access.throttle import Throttle
from hubbub.engine.access.tokens import Tokens
from hubbub.engine.delivery.fanout import Fanout
from hubbub.engine.hub import Hub, SessionState
from hubbub.engine.limits import EngineLimits
from hubbub.engine.publishing import Publisher
from hubbub.engine.session_requests import SessionRequests, Subject, UnderWay
from hubbub.engine.sessions.acknowledgements import AckCollector
from hubbub.engine.sessions.journal import Chronicle
from hubbub.engine.sessions.restore_keys import RestoreKeys
from hubbub.engine.sessions.subscriptions import Subscriptions
from hubbub.ports.bus import PublishOutcome, PublishReply
from hubbub.ports.clock import Clock
from hubbub.ports.connection import Connection
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

T = TypeVar("T")


class SessionHost(Protocol):
    """The part of the node that sessions use. Dependencies of a request are known to its handler
    only."""

    clock: Clock
    limits: EngineLimits
    fanout: Fanout
    tokens: Tokens
    throttle: Throttle
    publisher: Publisher
    subscriptions: Subscriptions
    restore_keys: RestoreKeys
    chronicle: Chronicle
    tasks: TaskSet
    session_requests: SessionRequests

    def close(self, session: SessionState, keep_state: bool = True) -> None:
        """Removes the session from its node; with the flag set, its restore key stays valid."""

    def close_soon(self, session: SessionState) -> None:
        """Like `close`, with a valid restore key; if many sessions end at once, over several turns
        of the event loop."""

    def end(self, session: SessionState, error: HubbubError) -> None:
        """Ends the session and its restore key."""


class Session(SessionState):
    """Handles the requests of its client, one after another."""

    __slots__ = (
        "_bucket",
        "_host",
        "_permitted",
        "_refused",
        "_under_way",
        "busy",
    )

    def __init__(
        self,
        host: SessionHost,
        hub: Hub,
        connection: Connection,
        identity: Identity,
        address: str = "",
    ) -> None:
        super().__init__(hub, connection, identity, address, host.clock, host.tokens)
        self._host = host
        self._bucket: TokenBucket | None = None
        self.busy = 0
        """The number of channels of the request in progress that the next one must wait for; 0:
        none."""
        self._permitted: tuple[str, Identity, HubConfiguration] | None = None
        """The last channel published to, with the identity and settings under which that was
        permitted."""
        self._refused = 0
        self._under_way: dict[Subject, UnderWay] | None = None

    # -- access that ends -----------------------------------------------------------------------

    def lose(self, channels: Sequence[str], error: NotPermitted) -> None:
        self._host.subscriptions.lose(self, channels, error)

    def end(self, error: HubbubError) -> None:
        self._host.end(self, error)

    # -- in -------------------------------------------------------------------------------------

    def hear(self) -> None:
        """A frame arrived: the client is alive, and has received its new restore key, if one was
        sent."""
        self.last_seen = self.clock.monotonic()
        if self.spent_hash is not None:
            self._host.restore_keys.spend(self)

    def receive(self, received: Iterator[Request], most: int) -> int:
        """Handles requests one after another until one must wait or the limit is reached, and
        returns how many were handled. After a request that waits, the connection's `resume_reading`
        is called."""
        fanout = self._host.fanout
        at_once = fanout.begin(self.last_seen)
        handled = 0
        try:
            while handled < most and not (self.busy or self.closed):
                request = next(received, None)
                if request is None:
                    break
                handled += 1
                self._handle(request)
        finally:
            if at_once:
                fanout.finish()
        return handled

    def _handle(self, request: Request) -> None:
        try:
            if isinstance(request, requests.Publish):
                items = request.items
                if len(items) != 1 or not self._publish_alone(items[0]):
                    self._publish(request)
            elif isinstance(request, requests.Ping):
                self.send(notices.Pong(request.req_id))
            else:
                self._host.session_requests[type(request)].take(self, request)
        except HubbubError as error:
            self.send(notices.Failed(error, getattr(request, "req_id", 0)))

    def check_rate(self, amount: int = 1) -> None:
        """Raises `RateLimited`; a client that ignores it is disconnected. Services are exempt:
        their hub's quotas apply."""
        limits = self._host.limits
        if not limits.session_messages_per_second or self.identity.trusted:
            return
        now = self.clock.monotonic()
        if self._bucket is None:
            self._bucket = TokenBucket(
                limits.session_messages_per_second, limits.session_burst, now
            )
        if self._bucket.take(amount, now):
            self._host.throttle.admit_in_session(self.hub.name, self.identity, self.address)
            self._refused = 0
            return
        error = RateLimited(
            f"more than {limits.session_messages_per_second:g} messages per second; slow down",
            self._bucket.seconds_until(amount),
        )
        self._count_refused(amount, error)
        raise error

    def rate_delay(self) -> float:
        """Seconds until `check_rate` permits the next request, for protocols whose clients cannot
        be refused: their connection waits instead."""
        if self._bucket is None or self.identity.trusted:
            return 0.0
        self._bucket.take(0, self.clock.monotonic())
        return self._bucket.seconds_until(1)

    def _count_refused(self, amount: int, error: RateLimited | QuotaExceeded) -> None:
        limits = self._host.limits
        if not isinstance(error, RateLimited):
            return
        self._refused += amount
        if self._refused > max(limits.session_burst, limits.session_messages_per_second):
            self.connection.disconnect(error)

    # -- publishing -----------------------------------------------------------------------------

    def _publish(self, request: requests.Publish) -> None:
        """If an item is refused for a limit, so are those after it: they must not overtake it when
        the publisher retries."""
        items, acknowledgement = request.items, None
        limit: RateLimited | QuotaExceeded | None = None
        for item in items:
            answer = None
            if item.req_id is not None:
                acknowledgement = acknowledgement or AckCollector(self)
                answer = acknowledgement.expect(item.req_id)
            try:
                if limit is not None:
                    self._count_refused(1, limit)
                    raise limit
                self.check_rate()
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

    def _publish_alone(self, item: PublishItem) -> bool:
        """The short way of what is usual: a message that asks for nothing, to the channel that this
        session published to last, while nothing has changed that was decided on then. What may
        change with time is checked as ever. False: nothing was begun."""
        known, hub, identity = self._permitted, self.hub, self.identity
        if (
            known is None
            or known[0] != item.channel
            or known[1] is not identity
            or known[2] is not hub.configuration
        ):
            return False
        publisher = self._host.publisher
        lane = publisher.lane(hub, item)
        if lane is None:
            return False
        try:
            self.check_rate()
            if identity.expires_at is not None:
                self.check_identity()
            message = publisher.publish_live(
                lane, hub, identity, item, self.connection.technology, self.id
            )
        except HubbubError as error:
            hub.counters.messages_refused += 1
            if item.req_id is not None:
                self._acknowledge(PublishResult(item.req_id, error=error))
        else:
            if item.req_id is not None:
                self._acknowledge(PublishResult(item.req_id, message.id, message.serial))
        if hub.delivery_queue.congested:
            hub.hold_back(item.channel, self.connection)
        return True

    def _acknowledge(self, result: PublishResult) -> None:
        if not self.closed:
            self.send(notices.Published((result,)))

    def _hand_on(self, item: PublishItem, reply: PublishReply | None) -> str:
        """Caches the permission for the last channel, valid for the same identity and settings:
        sessions mostly publish to the same channel."""
        hub, identity, known = self.hub, self.identity, self._permitted
        permitted = (
            known is not None
            and known[0] == item.channel
            and known[1] is identity
            and known[2] is hub.configuration
        )
        configuration = hub.configuration
        message_id = self._host.publisher.publish(
            hub, identity, item, reply, self.connection.technology, self.id, permitted
        )
        if not permitted and item.producer is None:
            self._permitted = item.channel, identity, configuration
        return message_id

    # -- the end --------------------------------------------------------------------------------

    def disconnected(self, keep_state: bool = True) -> None:
        """The connection is lost or closing. `keep_state`: the client may restore the session."""
        self._host.close(self, keep_state)

    @property
    def restorable(self) -> bool:
        return self.restore_hash is not None

    def lost(self) -> None:
        """The connection is lost; the client may restore the session."""
        self._host.close_soon(self)

    def cut_off(self, unread_bytes: int) -> None:
        """The client reads too slowly: this many pending bytes are dropped."""
        self.hub.counters.slow_consumers += 1
        self._host.chronicle.cut_off(self, unread_bytes)

    def cancel_requests(self) -> None:
        for under_way in (self._under_way or {}).values():
            under_way.give_up()

    # -- requests that take time ----------------------------------------------------------------

    def run(self, work: Coroutine[Any, Any, None], req_id: int = 0, channels: int = 1) -> None:
        """Runs work; later requests wait until it ends."""
        self.busy = channels or 1
        self.connection.pause_reading()
        self._host.tasks.start(self._finish(work, req_id))

    def run_beside(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Runs work concurrently with later requests."""
        return self._host.tasks.start(work)

    def under_way(self, subject: Subject) -> UnderWay:
        """The session's requests in progress about the subject."""
        if self._under_way is None:
            self._under_way = {}
        known = self._under_way.get(subject)
        if known is None:
            known = self._under_way[subject] = UnderWay()
        return known

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
