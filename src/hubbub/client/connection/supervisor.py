"""Keeps a client connected: opens one connection after the other, until there is a reason to
stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import time
from typing import TypeVar

from hubbub.client.connection.backoff import ReconnectBackoff
from hubbub.client.connection.conversation import Conversation
from hubbub.client.connection.establishing import (
    establish,
    resubscribe,
    subscribe_pending,
    unsubscribe,
)
from hubbub.client.connection.link import Codec, open_link, tls_context
from hubbub.client.connection.state import ClientState
from hubbub.client.errors import (
    ClientClosed,
    ClientFailed,
    ConnectionLost,
    Unreachable,
    client_failed,
)
from hubbub.client.events import Connected, Disconnected, Gap
from hubbub.client.subscription import Subscription
from hubbub.client.tracker import Tracker
from hubbub.domain.errors import (
    AuthenticationTimeout,
    HubbubError,
    InvalidToken,
    NotAuthenticated,
    RequestTimeout,
    TooLarge,
)
from hubbub.domain.notices import Notice, SessionInfo
from hubbub.domain.requests import Close, Request

logger = logging.getLogger("hubbub.client")
notes = logging.getLogger("hubbub.client.notes")
"""The hub's human-readable notes, for example that a hub name may contain a typo."""

CLOSE_SECONDS = 5.0
HEARTBEAT_SECONDS = 25.0

N = TypeVar("N", bound=Notice)
_PROOF_REFUSED = (InvalidToken, NotAuthenticated, AuthenticationTimeout)


class Supervisor:
    """Implements `subscription.SubscriptionOwner`, too."""

    def __init__(self, url: str, codec: Codec, state: ClientState) -> None:
        self._url = url
        self._codec = codec
        self._state = state
        self._conversation: Conversation | None = None
        """The established conversation, else None."""
        self._settled = asyncio.Event()
        """Set while connected, or when closed for good."""
        self._closed: ClientClosed | None = None
        self._runner: asyncio.Task[None] | None = None
        self._context: ssl.SSLContext | None = None

    # -- life -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connects for the first time. Raises `Unreachable`, `UntrustedServer`, or the error with
        which the hub refused the client."""
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._state.options.start_offline:
            started.set_result(None)
        self._runner = asyncio.get_running_loop().create_task(self._run(started))
        try:
            await asyncio.shield(started)
        except BaseException:
            await self.close()
            raise

    @property
    def info(self) -> SessionInfo | None:
        """The session; None before the first connection."""
        return self._state.info

    @property
    def connected(self) -> bool:
        return self._conversation is not None

    def check_open(self) -> None:
        """Raises `ClientClosed`."""
        if self._closed is not None:
            raise ClientClosed(self._closed.message) from self._closed.__cause__

    async def _run(self, started: asyncio.Future[None]) -> None:
        """Reports the reason of its end to all waiting callers."""
        try:
            error = await self._keep_connected(started)
        except Exception as cause:
            logger.exception("the client failed")
            error = client_failed(cause)
        if error is not None:
            self._give_up(error)
            if not started.done():
                started.set_exception(error)

    async def _keep_connected(self, started: asyncio.Future[None]) -> HubbubError | None:
        """Returns the error that makes further attempts pointless; None if the client was
        closed."""
        options = self._state.options
        backoff = ReconnectBackoff(options.backoff_first, options.backoff_longest)
        while True:
            began = time.monotonic()
            error = await self._serve_connection(started)
            if self._closed is not None:
                return None
            if not started.done() or not self._worth_retrying(error):
                return error
            if time.monotonic() - began >= options.stable_seconds:
                backoff.reset()
            delay = backoff.next(error)
            logger.info("disconnected: %s; connecting again in %.2f s", error.message, delay)
            self._state.emit(Disconnected(error, delay))
            await asyncio.sleep(delay)

    def _worth_retrying(self, error: HubbubError) -> bool:
        if isinstance(error, _PROOF_REFUSED) and self._state.proof.renewable:
            return True
        # What was too large is not sent again, so the next connection has no reason to end.
        return error.reconnect or isinstance(error, TooLarge)

    async def _serve_connection(self, started: asyncio.Future[None]) -> HubbubError:
        """Runs one connection from the handshake to its end; returns the reason."""
        state = self._state
        key = state.restore_key
        conversation: Conversation | None = None
        try:
            async with asyncio.timeout(state.options.connect_timeout):
                token = None if key else await state.proof.token()
                link = await open_link(self._url, self._codec, token=token, tls=self._tls())
                if link.note is not None:
                    notes.warning(link.note)
                conversation = Conversation(link, state)
                restored = await establish(conversation, state, key)
            await subscribe_pending(conversation, state)
            self._begin(conversation, restored)
            if not started.done():
                started.set_result(None)
            return await conversation.ended()
        except TimeoutError:
            return self._timed_out(conversation)
        except HubbubError as error:
            over = conversation is not None and conversation.over
            return await conversation.ended() if conversation is not None and over else error
        finally:
            self._conversation = None
            if self._closed is None:
                self._settled.clear()
            if conversation is not None:
                await conversation.stop()

    def _tls(self) -> ssl.SSLContext | None:
        """Cached: loading the authorities takes a while."""
        if self._context is None:
            self._context = tls_context(self._url, self._state.options.tls)
        return self._context

    def _timed_out(self, conversation: Conversation | None) -> HubbubError:
        seconds = self._state.options.connect_timeout
        if conversation is None:
            return Unreachable(f"no hub answers at {self._url}: timed out after {seconds:g} s")
        what = "say who this is" if conversation.greeting.done() else "greet"
        return RequestTimeout(f"the hub at {self._url} did not {what} in {seconds:g} s")

    def _begin(self, conversation: Conversation, restored: bool) -> None:
        info = conversation.introduce()
        self._conversation = conversation
        self._settled.set()
        conversation.spawn(self._send_publishes(conversation))
        interval = self._state.options.heartbeat_interval or info.ping_interval_seconds
        conversation.spawn(
            conversation.link.watch(
                interval or HEARTBEAT_SECONDS, self._state.options.heartbeat_timeout
            )
        )
        self._state.emit(Connected(info.session_id, info.user_id, restored))

    async def _send_publishes(self, conversation: Conversation) -> None:
        queue = self._state.send_queue
        while True:
            await queue.filled()
            if not conversation.link.is_open:
                return
            items = queue.take()
            if items:
                await conversation.send_items(items)

    def _give_up(self, error: HubbubError) -> None:
        failed = isinstance(error, ClientFailed)
        why = error.message if failed else f"the hub ended the session: {error.message}"
        self._closed = ClientClosed(why)
        self._closed.__cause__ = error
        self._state.emit(Disconnected(error, None))
        self._finish(self._closed, error)

    async def close(self) -> None:
        """Sends queued publishes if there is a connection, then closes for good. Idempotent."""
        conversation = self._conversation
        if self._closed is None and conversation is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._state.send_queue.emptied(), CLOSE_SECONDS)
        if self._closed is None:
            self._closed = ClientClosed("the client is closed")
            if conversation is not None:
                with contextlib.suppress(HubbubError, TimeoutError):
                    async with asyncio.timeout(CLOSE_SECONDS):
                        await conversation.link.send(Close())
                        await conversation.link.close()
            self._finish(self._closed, None)
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)

    def _finish(self, closed: ClientClosed, error: HubbubError | None) -> None:
        if len(self._state.send_queue):
            logger.warning("%d messages were never sent", len(self._state.send_queue))
        self._state.registry.finish(error)
        self._state.send_queue.fail_all(closed)
        self._settled.set()

    # -- for the client -------------------------------------------------------------------------

    async def conversation(self) -> Conversation:
        """Waits for an established conversation. Raises `ClientClosed`."""
        while True:
            await self._settled.wait()
            self.check_open()
            conversation = self._conversation
            if conversation is not None and not conversation.over:
                return conversation
            await asyncio.sleep(0)  # it ended, and the runner is about to notice

    async def ask_once(self, request: Request, kind: type[N], more_seconds: float = 0.0) -> N:
        """Sends a request once there is a connection. Raises `ConnectionLost` if it breaks before
        the response: the request may or may not have been executed."""
        seconds = self._state.options.request_timeout
        try:
            async with asyncio.timeout(seconds):
                conversation = await self.conversation()
        except TimeoutError:
            raise RequestTimeout(f"no connection to the hub for {seconds:g} s") from None
        return await conversation.ask(request, kind, more_seconds)

    async def call(self, request: Request, kind: type[N], more_seconds: float = 0.0) -> N:
        """Sends a request once there is a connection, and again if it breaks before the response,
        which may take `more_seconds` longer than usual."""
        seconds = self._state.options.request_timeout + more_seconds
        try:
            async with asyncio.timeout(seconds):
                while True:
                    conversation = await self.conversation()
                    try:
                        return await conversation.ask(request, kind, more_seconds)
                    except ConnectionLost:
                        await conversation.ended()
        except TimeoutError:
            raise RequestTimeout(f"no connection to the hub for {seconds:g} s") from None

    def subscribe_soon(self) -> None:
        """Requests new subscriptions; without a connection, the next one includes them."""
        conversation = self._conversation
        if conversation is not None:
            conversation.spawn(subscribe_pending(conversation, self._state))

    def recover(self, tracker: Tracker) -> None:
        conversation = self._conversation
        if conversation is not None:
            request = tracker.recover()
            conversation.spawn(resubscribe(conversation, self._state, request))

    async def end(self, subscription: Subscription) -> None:
        """Unsubscribes; received messages can still be read."""
        channels = self._state.registry.remove(subscription)
        filtered = [each.channel for each in subscription._each_tracker if each.filter is not None]
        subscription._finish(None)
        conversation = self._conversation
        if channels and conversation is not None:
            with contextlib.suppress(ConnectionLost):  # the next one does not ask for them
                await unsubscribe(conversation, channels, filtered)

    def emit(self, gap: Gap) -> None:
        logger.warning("messages of %r may be missing: %s", gap.channel, gap.reason)
        self._state.emit(gap)
