"""The client for programs without asyncio: the same calls, which wait.

    with connect("ws://127.0.0.1:8000", hub="demo") as client:
        client.publish("news", {"hello": "world"})
        for message in client.subscribe("news"):
            print(message.data)

The asynchronous client does the work, on a thread of its own. Callbacks (`on`) run on that thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from hubbub.client import client as asynchronous
from hubbub.client.client import Client as AsyncClient
from hubbub.client.client import Since
from hubbub.client.commands import Command
from hubbub.client.documents import Document as AsyncDocument
from hubbub.client.filters import Where
from hubbub.client.messages import Message
from hubbub.client.notifications import Notification
from hubbub.client.notifications import Notifications as AsyncNotifications
from hubbub.client.options import Options
from hubbub.client.proof import Credentials, Token
from hubbub.client.subscription import OnGap
from hubbub.client.subscription import Subscription as AsyncSubscription
from hubbub.client.sync.documents import Document, Edit, LocalCopy
from hubbub.client.sync.topics import Inbox, Outbox, SharedReader, Topics
from hubbub.client.sync.waiting import Blocking, passes, waits
from hubbub.domain.notices import SessionInfo
from hubbub.domain.notifications import NotificationState

__all__ = [
    "Client",
    "Document",
    "Edit",
    "Inbox",
    "LocalCopy",
    "Outbox",
    "SharedReader",
    "Subscription",
    "Topics",
    "connect",
]

T = TypeVar("T")


class Client(Blocking[AsyncClient]):
    """A connected client, created by `connect`. Close it, or use it with `with`."""

    def __init__(self, client: AsyncClient) -> None:
        super().__init__(self, client)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="hubbub-client", daemon=True
        )
        self._thread.start()
        try:
            self.run(client.__aenter__())
        except BaseException:
            self._stop()
            raise

    def close(self) -> None:
        """Sends queued messages, discards the session and ends all subscriptions. Idempotent."""
        if not self._loop.is_closed():
            try:
                self.run(self._inner.close())
            finally:
                self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the client's own thread and waits for it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:  # an error of the work, or Ctrl-C while waiting for it
            future.cancel()
            raise

    @property
    def asynchronous(self) -> AsyncClient:
        """The underlying asynchronous client."""
        return self._inner

    @property
    def topics(self) -> Topics:
        return Topics(self, self._inner.topics)

    @property
    def connected(self) -> bool:
        return self._inner.connected

    @property
    def session(self) -> SessionInfo | None:
        return self._inner.session

    on = passes(AsyncClient.on)
    authenticate = waits(AsyncClient.authenticate)
    publish = waits(AsyncClient.publish)
    publish_many = waits(AsyncClient.publish_many)
    history = waits(AsyncClient.history)
    threads = waits(AsyncClient.threads)
    thread = waits(AsyncClient.thread)
    search = waits(AsyncClient.search)
    set_filter = waits(AsyncClient.set_filter)
    unset_filter = waits(AsyncClient.unset_filter)
    filters = waits(AsyncClient.filters)
    presence = waits(AsyncClient.presence)
    call = waits(AsyncClient.call)
    submit = waits(AsyncClient.submit)
    command = waits(AsyncClient.command)

    def on_command(self, cmd: str, handler: Callable[[Command], object]) -> Callable[[], None]:
        """Handles the command `cmd` of other users: `handler` returns the result, on its own
        thread. Returns a function that removes the handler."""

        async def handle(command: Command) -> object:
            return await asyncio.to_thread(handler, command)

        return self._inner.on_command(cmd, handle)

    def document(self, channel: str) -> Document:
        """The document of a channel whose name begins with `doc:`."""

        async def make() -> AsyncDocument:
            return self._inner.document(channel)

        return Document(self, self.run(make()))

    def notifications(
        self, channel: str | None = None, *, since: int | None = None
    ) -> Notifications:
        """Follows a notification channel; without a name, the user's own."""

        async def begin() -> AsyncNotifications:
            return await self._inner.notifications(channel, since=since).__aenter__()

        return Notifications(self, self.run(begin()))

    def subscribe(
        self,
        *channels: str,
        since: Since | None = None,
        where: Where | None = None,
        on_gap: OnGap = "mark",
    ) -> Subscription:
        """Follows channels; returns when the hub confirmed."""

        async def begin() -> AsyncSubscription:
            return await self._inner.subscribe(*channels, since=since, where=where, on_gap=on_gap)

        return Subscription(self, self.run(begin()))


class Subscription(Blocking[AsyncSubscription]):
    """The messages of channels: iterate over it."""

    def __init__(self, runner: Client, subscription: AsyncSubscription) -> None:
        super().__init__(runner, subscription)
        self._batch: deque[Message] = deque()

    unsubscribe = close = waits(AsyncSubscription.unsubscribe)

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        # Going to the other thread is slow, so each time brings all that is there.
        if not self._batch:
            self._batch.extend(self._runner.run(self._inner.batch()))
        if not self._batch:
            raise StopIteration
        return self._batch.popleft()


class Notifications(Blocking[AsyncNotifications]):
    """A notification channel: iterate over it for new notifications."""

    def __enter__(self) -> Notifications:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    close = waits(AsyncNotifications.close)
    count = waits(AsyncNotifications.count)
    page = waits(AsyncNotifications.page)
    mark_read = waits(AsyncNotifications.mark_read)
    mark_seen = waits(AsyncNotifications.mark_seen)

    @property
    def state(self) -> NotificationState | None:
        return self._inner.state

    @property
    def unread(self) -> int:
        return self._inner.unread

    def __iter__(self) -> Iterator[Notification]:
        return self

    def __next__(self) -> Notification:
        try:
            return self._runner.run(self._inner.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None


def connect(
    url: str = "ws://127.0.0.1:8000",
    *,
    hub: str = "demo",
    token: Token | None = None,
    credentials: Credentials | None = None,
    options: Options | None = None,
) -> Client:
    """Returns a connected client. Raises `Unreachable`, `UntrustedServer`, or the error with which
    the hub refused the client."""
    return Client(
        asynchronous.connect(url, hub=hub, token=token, credentials=credentials, options=options)
    )
