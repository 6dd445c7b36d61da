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
from collections.abc import Callable, Coroutine, Iterable, Iterator
from datetime import datetime
from typing import Any, TypeVar

from hubbub.client import client as asynchronous
from hubbub.client.client import Client as AsyncClient
from hubbub.client.client import Since
from hubbub.client.events import Event, Member
from hubbub.client.messages import HistoryPage, Item, Message, Receipt
from hubbub.client.options import Options
from hubbub.client.proof import Credentials, Token
from hubbub.client.services import Answer
from hubbub.client.subscription import OnGap
from hubbub.client.subscription import Subscription as AsyncSubscription
from hubbub.client.sync.topics import Inbox, Outbox, SharedReader, Topics
from hubbub.domain.errors import HubbubError
from hubbub.domain.notices import Authenticated, SessionInfo

__all__ = ["Client", "Inbox", "Outbox", "SharedReader", "Subscription", "Topics", "connect"]

T = TypeVar("T")
E = TypeVar("E", bound=Event)
Run = Callable[[Coroutine[Any, Any, Any]], Any]


class Client:
    """Made by `connect`, and connected. Close it, or use it with `with`."""

    def __init__(self, client: asynchronous.Client) -> None:
        self._client = client
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

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Send what is queued, discard the session and end all subscriptions. Idempotent."""
        if not self._loop.is_closed():
            try:
                self.run(self._client.close())
            finally:
                self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for something on the client's own thread."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:  # an error of the work, or Ctrl-C while waiting for it
            future.cancel()
            raise

    @property
    def asynchronous(self) -> AsyncClient:
        """The client that does the work."""
        return self._client

    @property
    def topics(self) -> Topics:
        return Topics(self.run, self._client.topics)

    @property
    def connected(self) -> bool:
        return self._client.connected

    @property
    def session(self) -> SessionInfo | None:
        return self._client.session

    def on(self, kind: type[E], callback: Callable[[E], None]) -> Callable[[], None]:
        return self._client.on(kind, callback)

    def authenticate(
        self, *, token: Token | None = None, credentials: Credentials | None = None
    ) -> Authenticated:
        return self.run(self._client.authenticate(token=token, credentials=credentials))

    def publish(
        self,
        channel: str,
        data: object,
        event: str = "",
        *,
        store: bool = False,
        retain: bool = False,
        push: bool = False,
        transient: bool = False,
        content_type: str | None = None,
    ) -> Receipt:
        """Publish and wait for the receipt."""
        return self.run(
            self._client.publish(
                channel,
                data,
                event,
                store=store,
                retain=retain,
                push=push,
                transient=transient,
                content_type=content_type,
            )
        )

    def publish_many(self, items: Iterable[Item]) -> list[Receipt | HubbubError]:
        return self.run(self._client.publish_many(items))

    def subscribe(
        self, *channels: str, since: Since | None = None, on_gap: OnGap = "mark"
    ) -> Subscription:
        """Follow channels; returns when the hub confirmed."""

        async def begin() -> AsyncSubscription:
            return await self._client.subscribe(*channels, since=since, on_gap=on_gap)

        return Subscription(self.run, self.run(begin()))

    def history(
        self,
        channel: str,
        *,
        after: int | datetime | None = None,
        before: int | datetime | None = None,
        epoch: str | None = None,
        limit: int = 0,
    ) -> HistoryPage:
        return self.run(
            self._client.history(channel, after=after, before=before, epoch=epoch, limit=limit)
        )

    def presence(self, channel: str) -> tuple[Member, ...]:
        return self.run(self._client.presence(channel))

    def call(
        self,
        method: str,
        data: object = b"",
        *,
        timeout: float | None = None,
        content_type: str | None = None,
    ) -> Answer:
        return self.run(self._client.call(method, data, timeout=timeout, content_type=content_type))

    def submit(
        self, stream: str, data: object, event: str = "", *, content_type: str | None = None
    ) -> str:
        return self.run(self._client.submit(stream, data, event, content_type=content_type))


class Subscription:
    """The messages of channels: iterate over it."""

    def __init__(self, run: Run, subscription: AsyncSubscription) -> None:
        self._run = run
        self._subscription = subscription
        self._batch: deque[Message] = deque()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.unsubscribe()

    def unsubscribe(self) -> None:
        self._run(self._subscription.unsubscribe())

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        # Going to the other thread is slow, so each time brings all that is there.
        if not self._batch:
            self._batch.extend(self._run(self._subscription.batch()))
        if not self._batch:
            raise StopIteration
        return self._batch.popleft()


def connect(
    url: str = "ws://127.0.0.1:8000",
    *,
    hub: str = "demo",
    token: Token | None = None,
    credentials: Credentials | None = None,
    options: Options | None = None,
) -> Client:
    """A client that is connected. Raises what speaks against it."""
    return Client(
        asynchronous.connect(url, hub=hub, token=token, credentials=credentials, options=options)
    )
