"""The conversation on one connection: requests, their responses, and unsolicited notices."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

import msgspec

from hubbub.client.connection.link import Link
from hubbub.client.connection.state import ClientState
from hubbub.client.errors import ConnectionLost, client_failed
from hubbub.client.subscription import Subscription
from hubbub.domain import notices
from hubbub.domain.errors import BadRequest, HubbubError, RequestTimeout, TooLarge
from hubbub.domain.notices import Notice
from hubbub.domain.requests import Pong, Publish, PublishItem, Request
from hubbub.tasks import TaskSet

logger = logging.getLogger("hubbub.client")

N = TypeVar("N", bound=Notice)
Answered = Callable[[notices.PublishResult], None]

_TOLD = (
    notices.Joined,
    notices.Left,
    notices.Occupancy,
    notices.NotificationNew,
    notices.NotificationRead,
    notices.NotificationInfo,
    notices.DocumentUpdated,
    notices.DocumentInfo,
)


class Conversation:
    """Covers one connection from the handshake to its end. `requested`: the channels subscribed to
    on this connection."""

    def __init__(self, link: Link, state: ClientState) -> None:
        self.link = link
        self.requested: set[str] = set()
        self._state = state
        self._waiting: dict[int, asyncio.Future[Notice]] = {}
        self._putting: dict[int, Answered] = {}
        self._tasks = TaskSet(self._task_failed)
        self._info: notices.SessionInfo | None = None
        self.greeting: asyncio.Future[notices.SessionInfo] = _future()
        self._reader = asyncio.get_running_loop().create_task(self._read())

    # -- life -----------------------------------------------------------------------------------

    async def ended(self) -> HubbubError:
        """Waits for the end of the connection; returns its error."""
        return await asyncio.shield(self._reader)

    @property
    def over(self) -> bool:
        return self._reader.done()

    async def _read(self) -> HubbubError:
        error: HubbubError = ConnectionLost("the client closed the connection")
        try:
            error = await self.link.receive(self._handle)
        finally:
            lost = ConnectionLost(f"the connection was lost: {error.message}")
            waiting, self._waiting = self._waiting, {}
            futures: list[asyncio.Future[Any]] = [*waiting.values(), self.greeting]
            for future in futures:
                if not future.done():
                    future.set_exception(lost)
                    future.exception()
            # A hub that does not tell its limit ends the connection for what is too large.
            self._state.send_queue.fail_sent(error if isinstance(error, TooLarge) else lost)
        return error

    def call_at_end(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Returns a function that removes the callback again."""

        def ended(_: object) -> None:
            callback()

        self._reader.add_done_callback(ended)

        def forget() -> None:
            self._reader.remove_done_callback(ended)

        return forget

    async def stop(self) -> None:
        """Ends the connection if it has not ended yet, and all its tasks."""
        self.link.abort(ConnectionLost("the client closed the connection"))
        self._reader.cancel()
        await self._tasks.end()
        await asyncio.gather(self._reader, return_exceptions=True)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Starts a task that ends with the connection."""
        self._tasks.start(work)

    def _task_failed(self, error: BaseException) -> None:
        if isinstance(error, HubbubError):
            self.link.abort(error)  # starting over is the remedy for whatever it was
        else:
            logger.error("a task of the client failed", exc_info=error)
            self.link.abort(client_failed(error))

    # -- questions ------------------------------------------------------------------------------

    async def ask(self, request: Request, kind: type[N], more_seconds: float = 0.0) -> N:
        """Sends a request with a new id and waits for its response, which may take `more_seconds`
        longer than usual. Raises the hub's error, `ConnectionLost`, or `RequestTimeout`."""
        req_id = self._state.next_id()
        request = msgspec.structs.replace(request, req_id=req_id)
        seconds = self._state.options.request_timeout + more_seconds
        answer = self._waiting[req_id] = _future()
        try:
            async with asyncio.timeout(seconds):
                await self.link.send(request)
                notice = await answer
        except TimeoutError:
            name = type(request).__name__
            raise RequestTimeout(f"the hub did not answer {name} in {seconds:g} s") from None
        finally:
            self._waiting.pop(req_id, None)
        error = getattr(notice, "error", None)
        if error is not None:
            if isinstance(notice, notices.DocumentChangeResult):
                error.details |= notice.details()
            raise error
        if not isinstance(notice, kind):
            raise HubbubError(f"the hub answered {type(notice).__name__} to {request!r}")
        return notice

    async def put(self, items: Iterable[tuple[PublishItem, Answered]]) -> None:
        """Sends puts. Each put's function is called with its result, unless the connection ends
        first. Raises `ConnectionLost`."""
        numbered: list[PublishItem] = []
        for item, answered in items:
            req_id = self._state.next_id()
            numbered.append(msgspec.structs.replace(item, req_id=req_id))
            self._putting[req_id] = answered
        await self.send_items(tuple(numbered))

    async def send_items(self, items: tuple[PublishItem, ...]) -> None:
        """Sends publishes in one frame, or in several if the hub's frame limit requires it. An item
        that is too large by itself fails here, and its publisher is notified. Raises
        `ConnectionLost`."""
        try:
            data = self.link.encode(Publish(items))
        except BadRequest as error:
            if len(items) > 1:
                half = len(items) // 2
                await self.send_items(items[:half])
                await self.send_items(items[half:])
            else:
                self._refuse(items[0], error)
            return
        await self.link.transmit(data)

    def _refuse(self, item: PublishItem, error: BadRequest) -> None:
        refusal = type(error)(f"the publish to {item.channel!r} was not sent: {error.message}")
        if item.req_id is None:
            logger.warning("not sent: %s", refusal.message)
        else:
            self._conclude(notices.PublishResult(item.req_id, error=refusal))

    # -- what the hub says ----------------------------------------------------------------------

    def _handle(self, received: list[Notice]) -> Awaitable[None] | None:
        """Returns an awaitable if a subscription is full."""
        full: Subscription | None = None
        deliver = self._state.registry.deliver
        for notice in received:
            if type(notice) is notices.MessageDelivery:
                full = deliver(notice) or full
            else:
                self._handle_rarer(notice)
        return None if full is None else full._wait_for_room(self._state.options.slow_seconds)

    def _handle_rarer(self, notice: Notice) -> None:
        registry = self._state.registry
        req_id = getattr(notice, "req_id", 0)
        if isinstance(notice, notices.Subscribed | notices.SessionRestored) and req_id:
            # Before anyone else learns of it: what was missed may follow in the same frame.
            registry.confirm_patterns(notice.patterns)
            registry.confirm(notice.channels)
        if isinstance(notice, notices.Ping):
            self.spawn(_quietly(self.link.send(Pong(notice.req_id))))
        elif isinstance(notice, notices.Failed):
            self._fail(notice)
        elif req_id:
            self._answer(req_id, notice)
        elif isinstance(notice, notices.Published):
            for result in notice.results:
                self._conclude(result)
        elif isinstance(notice, (notices.Presence, *_TOLD)):
            registry.tell(notice)
        elif isinstance(notice, notices.CommandReceived):
            self._state.command_received(notice)
        elif isinstance(notice, notices.Unsubscribed):
            registry.withdraw(notice)
            self.requested.difference_update(failure.channel for failure in notice.failures)
        elif isinstance(notice, notices.Subscribed):
            self.requested.update(registry.match(notice))
        elif isinstance(notice, notices.ChannelReset):
            registry.reset(notice)
        elif isinstance(notice, notices.RestoreKey):
            self._state.restore_key = notice.restore_key if self._state.options.restore else None
        elif isinstance(notice, notices.SessionInfo):
            self._info = notice
            self.link.max_message_bytes = notice.max_message_bytes
            if not self.greeting.done():
                self.greeting.set_result(notice)

    def _answer(self, req_id: int, notice: Notice) -> None:
        future = self._waiting.get(req_id)
        if future is not None and not future.done():
            future.set_result(notice)

    def _fail(self, notice: notices.Failed) -> None:
        future = self._waiting.get(notice.req_id)
        if future is not None and not future.done():
            future.set_exception(notice.error)
        elif notice.req_id:
            self._conclude(notices.PublishResult(notice.req_id, error=notice.error))
        else:
            logger.warning("the hub refused a request: %s", notice.error.message)

    def _conclude(self, result: notices.PublishResult) -> None:
        answered = self._putting.pop(result.req_id, None)
        if answered is not None:
            answered(result)
        else:
            self._state.send_queue.acknowledge(result)

    # -- who this is ----------------------------------------------------------------------------

    def identify(
        self, user_id: str | None, expires_at: int | None, session_id: str | None = None
    ) -> None:
        """The session has this identity from now on, until `expires_at`."""
        if self._info is not None:
            self._info = msgspec.structs.replace(
                self._info,
                user_id=user_id,
                session_id=session_id or self._info.session_id,
                authenticated=True,
                expires_at=expires_at,
            )

    def introduce(self) -> notices.SessionInfo:
        """Reports the current session to the application; called once the handshake is complete."""
        assert self._info is not None
        self._state.info = self._info
        return self._info


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    with contextlib.suppress(HubbubError):
        await work


def _future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()
