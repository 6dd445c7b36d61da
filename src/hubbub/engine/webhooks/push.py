"""A webhook in its driver's memory: what is to be sent next, and how it went so far."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import InitVar, dataclass, field
from random import random

import msgspec

from hubbub.domain.errors import HubbubError, NotPermitted
from hubbub.domain.messages import Message
from hubbub.domain.permissions import Identity, Level, Reader
from hubbub.domain.topics import SubscriptionKey, user_of
from hubbub.domain.webhooks import WEBHOOK_OWNER, Webhook, WebhookStatus, retry_delay
from hubbub.engine.access.registry import Subscriber
from hubbub.engine.outgoing import Destination
from hubbub.engine.webhooks.requests import Headers, lasting_headers

MOST_QUEUED = 64
"""Messages in memory of one webhook; the rest is read from the store when it is their turn."""
MOST_LARGE = 4
LARGE_BYTES = 4096


def key_of(webhook: Webhook) -> SubscriptionKey:
    return SubscriptionKey(webhook.hub, webhook.channel, WEBHOOK_OWNER, webhook.id)


def reader_of(webhook: Webhook) -> Reader:
    """As whom it is sent messages. One that was made before that was kept lasts until the tokens of
    its owner are revoked."""
    if webhook.acting is not None:
        return webhook.acting
    user = user_of(webhook.owner or "")
    return Reader(Identity(user, Level.SERVICE, issued_at=webhook.created_at))


@dataclass(slots=True, eq=False)
class Push(Subscriber):
    """State only; the driver drives it. One task at a time works for it, while there is work."""

    webhook: Webhook
    host: Destination
    hub_url: InitVar[str | None]
    refuse: Callable[[Push, HubbubError], None]
    """Ends the webhook when access was taken away."""
    queue: deque[Message] = field(default_factory=deque)
    """What comes next, without gaps."""
    queued: int = 0
    """The serial of the last one that was queued."""
    position: int = 0
    """The serial up to which everything has arrived or was given up."""
    acknowledged: int = 0
    behind: bool = False
    """There may be messages behind the queue that are on disk only."""
    fetching: bool = False
    gone: bool = False
    paused: bool = False
    """The hub itself could not go on: the next attempt has its time."""
    hindrances: int = 0
    """How many times that was so since a message was last done with."""
    sending: bool = False
    task: asyncio.Task[None] | None = None
    status: WebhookStatus = field(default_factory=WebhookStatus)
    """How it went so far; `described` adds what others know."""
    key: SubscriptionKey = field(init=False)
    lasting: Headers = field(init=False)
    _reader: Reader = field(init=False)

    def __post_init__(self, hub_url: str | None) -> None:
        self.key = key_of(self.webhook)
        self.configure(self.webhook, self.host, hub_url)

    def configure(self, webhook: Webhook, host: Destination, hub_url: str | None) -> None:
        self.webhook = webhook
        self._reader = reader_of(webhook)
        self.host = host
        self.lasting = lasting_headers(webhook, webhook.hub_url or hub_url)

    @property
    def reader(self) -> Reader:
        return self._reader

    def followed(self) -> Collection[str]:
        return (self.webhook.channel,)

    def lose(self, channels: Sequence[str], error: NotPermitted) -> None:
        self.refuse(self, error)

    def end(self, error: HubbubError) -> None:
        self.refuse(self, error)

    @property
    def active(self) -> bool:
        return self.webhook.state == "active" and not self.gone

    def pause(self, longest_seconds: float) -> float:
        """For how many seconds: each time twice as long, from 1 on."""
        self.paused = True
        self.hindrances += 1
        return retry_delay(self.hindrances, random(), longest_seconds=longest_seconds)

    def take(self, message: Message) -> None:
        """A message of the channel is on disk."""
        serial = message.serial
        in_line = serial == self.queued + 1 and not self.behind and not self.fetching
        most = MOST_QUEUED if len(message.payload) <= LARGE_BYTES else MOST_LARGE
        if self.status.attempts:
            most = 1  # who fails must not fill the memory
        if in_line and len(self.queue) < most:
            self.queue.append(message)
            self.queued = serial
            return
        self.behind = True
        if serial <= self.queued:  # the channel began anew
            self.queue.clear()
            self.queued = self.position = self.acknowledged = 0

    def forget_queue(self) -> None:
        """What waits is read from the store again."""
        self.queue.clear()
        self.queued, self.behind = self.position, True

    def begin_at(self, serial: int) -> None:
        """Everything up to there is done."""
        self.queued = self.position = self.acknowledged = serial

    def described(self, head: int, dead_letters: int) -> WebhookStatus:
        """The status where the channel stands at `head`."""
        lag = max(0, head - self.position)
        return msgspec.structs.replace(
            self.status, lag=lag, breaker=self.host.breaker, dead_letters=dead_letters
        )
