"""A webhook in its driver's memory: the next messages and the state of delivery."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import InitVar, dataclass, field

import msgspec

from hubbub.domain.errors import HubbubError, NotPermitted
from hubbub.domain.messages import Message
from hubbub.domain.permissions import Identity, Level, Reader
from hubbub.domain.topics import SubscriptionKey, user_of
from hubbub.domain.webhooks import WEBHOOK_OWNER, Webhook, WebhookStatus, retry_delay
from hubbub.engine.access.registry import Subscriber
from hubbub.engine.outward.gate import Destination
from hubbub.engine.webhooks.requests import Headers, lasting_headers
from hubbub.ports import randomness

MOST_QUEUED = 64
"""Maximum number of messages in memory per webhook; the others are read from the store in time."""
MOST_LARGE = 4
LARGE_BYTES = 4096


def key_of(webhook: Webhook) -> SubscriptionKey:
    return SubscriptionKey(webhook.hub, webhook.channel, WEBHOOK_OWNER, webhook.id)


def reader_of(webhook: Webhook) -> Reader:
    """The identity under which the webhook reads its channel. Webhooks created before that identity
    was stored last until the tokens of their owner are revoked."""
    if webhook.acting is not None:
        return webhook.acting
    user = user_of(webhook.owner or "")
    return Reader(Identity(user, Level.SERVICE, issued_at=webhook.created_at))


@dataclass(slots=True, eq=False)
class DrivenWebhook(Subscriber):
    """The state of a webhook that this node drives. At most one task works on it, and only while
    there is something to send."""

    webhook: Webhook
    host: Destination
    hub_url: InitVar[str | None]
    refuse: Callable[[DrivenWebhook, HubbubError], None]
    """Called when the webhook's access was revoked; ends the webhook."""
    queue: deque[Message] = field(default_factory=deque)
    """The next messages, without gaps."""
    queued: int = 0
    """The serial of the last queued message."""
    position: int = 0
    """The serial up to which all messages have arrived or were given up."""
    acknowledged: int = 0
    behind: bool = False
    """The store may have messages after those in the queue."""
    fetching: bool = False
    gone: bool = False
    paused: bool = False
    """The last attempt failed inside the hub; a timer starts the next one."""
    hindrances: int = 0
    """Consecutive failures inside the hub since the last message was finished."""
    sending: bool = False
    task: asyncio.Task[None] | None = None
    status: WebhookStatus = field(default_factory=WebhookStatus)
    """The state of delivery; `described` adds what only the channel's owner knows."""
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
        """Returns the next pause in seconds, beginning with 1 and doubling each time."""
        self.paused = True
        self.hindrances += 1
        return retry_delay(self.hindrances, randomness.fraction(), longest_seconds=longest_seconds)

    def take(self, message: Message) -> None:
        """Called when a message of the channel was stored."""
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
        """Empties the queue; its messages will be read from the store again."""
        self.queue.clear()
        self.queued, self.behind = self.position, True

    def begin_at(self, serial: int) -> None:
        """Marks all messages up to the serial as finished."""
        self.queued = self.position = self.acknowledged = serial

    def described(self, head: int, dead_letters: int) -> WebhookStatus:
        """The status, given the channel's `head`."""
        lag = max(0, head - self.position)
        return msgspec.structs.replace(
            self.status, lag=lag, breaker=self.host.breaker, dead_letters=dead_letters
        )
