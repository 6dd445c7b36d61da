"""Topics: stored channels whose messages are put and fetched exactly once.

A producer numbers its puts, so that a repeat is recognized however late it arrives. A durable
subscription has a durable cursor in the channel; its messages are fetched with `get` and complete
when they are acknowledged.
"""

from __future__ import annotations

from typing import Annotated, Generic, Literal

import msgspec
from msgspec import UNSET

from hubbub.domain.asking import Answer, ChannelRequest, NodeRequest, OwnerRequest
from hubbub.domain.audit import Audit
from hubbub.domain.documents.changes import ChangeOutcome
from hubbub.domain.errors import TopicNotFound
from hubbub.domain.messages import Message
from hubbub.domain.names import dead_letters_of
from hubbub.domain.permissions import Identity, Level, Reader
from hubbub.domain.webhooks import Replayed, WebhookStatus
from hubbub.domain.wire import ALWAYS, FLAT, LOCAL, Wire

DEFAULT_SUBSCRIPTION = "default"
MAX_BATCH = 1000
MAX_AHEAD = 10_000
"""How far beyond the first unacknowledged message a consumer can fetch."""
MAX_WAIT_SECONDS = 60.0
DEFAULT_LEASE_SECONDS = 30.0


def principal_of(identity: Identity) -> str:
    """The owner of a caller's producers and subscriptions. They are private to the principal;
    anonymous callers share one."""
    if identity.user_id is not None:
        return f"u:{identity.user_id}"
    return "anonymous" if identity.level is Level.CLIENT else identity.level.value


def user_of(principal: str) -> str | None:
    """The user of a principal; None for anonymous callers."""
    return principal[2:] if principal.startswith("u:") else None


class ProducerState(msgspec.Struct, frozen=True):
    """`sequence` is the number of the last durable put, 0 before the first."""

    fence: int
    sequence: int


class SubscriptionOptions(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, rename="camel"
):
    """How a durable subscription delivers messages.

    Not shared: every `get` returns the first unacknowledged messages, in order. Shared: each
    message goes to one consumer under a lease; if the lease expires before an acknowledgement, the
    message goes to another consumer.
    """

    shared: bool = False
    lease_seconds: float = DEFAULT_LEASE_SECONDS
    max_unacknowledged: int = 1000
    """Shared: the most messages under lease at a time."""
    max_deliveries: int = 0
    """Deliveries of a message before it becomes a dead letter; 0: unlimited."""
    dead_letters: str | None = None
    """The channel of dead letters, which must store; None: `<channel>.dead`."""


class SubscriptionKey(msgspec.Struct, frozen=True):
    hub: Annotated[str, LOCAL]
    channel: Annotated[str, Wire("topic")]
    owner: Annotated[str, LOCAL]
    """The owner as returned by `principal_of`."""
    name: Annotated[str, ALWAYS] = DEFAULT_SUBSCRIPTION


class Lag(msgspec.Struct, frozen=True):
    """A durable subscription's unacknowledged messages, and counters of its other messages."""

    key: SubscriptionKey
    messages: int
    handed_out: int = 0
    redeliveries: int = 0
    dead_letters: int = 0


class FindLags(NodeRequest[list[Lag]], frozen=True, tag="lags"):
    """Returns the durable subscriptions, or webhooks, of the hub that are farthest behind, among
    those whose channels the node owns."""

    hub: str
    webhooks: bool = False


class Article(msgspec.Struct, frozen=True):
    """A message delivered by a subscription."""

    message: Annotated[Message, FLAT]
    deliveries: Annotated[int, ALWAYS] = 1
    """The known number of deliveries."""
    redelivered: Annotated[bool, ALWAYS] = False
    """The message may have been delivered before."""


class SubscriptionInfo(msgspec.Struct, frozen=True):
    """The state of a durable subscription."""

    key: Annotated[SubscriptionKey, FLAT]
    options: SubscriptionOptions
    epoch: str
    floor: int
    """Everything up to this serial is acknowledged."""
    head: int
    """The channel's newest serial."""
    lag: int
    """Messages that are not acknowledged."""
    handed_out: int
    """Unacknowledged messages that are under lease."""
    created_at: int
    """Milliseconds since 1970."""
    redeliveries: int = 0
    dead_letters: int = 0
    missed: int = 0
    """Messages that a limit of the channel deleted before this subscription received them."""
    new: bool = False
    """The request created the subscription."""


class _SubscriptionRequest(OwnerRequest[Answer], Generic[Answer], frozen=True):
    travels_in = ("topic", "request")

    key: SubscriptionKey

    @property
    def place(self) -> tuple[str, str]:
        return self.key.hub, self.key.channel


class _TopicRequest(ChannelRequest[Answer], Generic[Answer], frozen=True):
    travels_in = ("topic", "request")


class SubscribeTopic(_SubscriptionRequest[SubscriptionInfo], frozen=True, tag="subscribe_topic"):
    """`start`: `new` (messages put from now on), `first` (all messages still stored), or the serial
    after which to begin. An existing subscription keeps its cursor."""

    options: SubscriptionOptions | None = None
    """None: keep the existing options, or use the defaults."""
    start: Literal["new", "first"] | int = "new"


class UnsubscribeTopic(_SubscriptionRequest[None], frozen=True, tag="unsubscribe_topic"):
    """Deletes the subscription, and with it its cursor."""

    audit: Audit = UNSET


class GetMessages(_SubscriptionRequest[tuple[Article, ...]], frozen=True, tag="get_messages"):
    """`ack_up_to` acknowledges first, in the same step. The owner returns only messages that
    `reader` may read at that moment."""

    may_wait = True

    reader: Reader
    limit: int = 1
    wait_seconds: float = 0.0
    consumer: str = ""
    """Identifies a consumer of a shared subscription."""
    ack_up_to: int | None = None
    after: int = 0
    """Not shared: only messages after this serial, since the caller already holds the earlier ones.
    Allows prefetching before acknowledgement."""
    technology: str = ""
    """The protocol of delivery, for the journal; empty for webhooks, whose attempts record it."""


class Acknowledge(_SubscriptionRequest[int], frozen=True, tag="acknowledge"):
    """Exactly one of the two is given. `up_to` on a shared subscription covers the messages leased
    to this consumer. `give_back`: not processed, redeliver at once."""

    serials: tuple[int, ...] = ()
    up_to: int | None = None
    consumer: str = ""
    give_back: bool = False
    dead: bool = False
    """The messages could not be processed: move them to the dead letters. The response is sent once
    that is durable."""
    expired: bool = False
    """The messages expired before they could be processed."""
    replayed: bool = False
    """The messages were dead letters, and a replay delivered them."""
    audit: Audit = UNSET


class DescribeSubscription(
    _SubscriptionRequest[SubscriptionInfo], frozen=True, tag="describe_subscription"
):
    """Returns the state of the subscription."""


class OpenProducer(_TopicRequest[ProducerState], frozen=True, tag="open_producer"):
    """Takes over a producer and fences earlier holders."""

    principal: str
    producer: str


class FoundPut(msgspec.Struct, frozen=True):
    """The original of a repeated put; serial 0 and no id if it has been deleted."""

    serial: int = 0
    message_id: str | None = None
    change: ChangeOutcome | None = None
    """The outcome of a change of a document, which is kept permanently."""


class FindPut(OwnerRequest[FoundPut | None], frozen=True, tag="find_put"):
    """Asks whether this put, which carries a stamp, would be a repeat."""

    travels_in = ("topic", "request")

    message: Message

    @property
    def place(self) -> tuple[str, str]:
        return self.message.hub, self.message.channel


class WebhookChanged(_TopicRequest[None], frozen=True, tag="webhook_changed"):
    """A webhook's row in the store was created or changed; its driver reads it again."""

    webhook: str


class TopicPinged(_TopicRequest[None], frozen=True, tag="topic_pinged"):
    """A web topic's row in the store says that a new version can be fetched."""


class DescribeWebhook(_TopicRequest[WebhookStatus], frozen=True, tag="describe_webhook"):
    """Returns the status of a webhook."""

    webhook: str


class ReplayWebhook(_TopicRequest[Replayed], frozen=True, tag="replay_webhook"):
    """Resends dead letters of a webhook: those after `after`, or `only` one, by serial; as many as
    fit into one step."""

    webhook: str
    after: int = 0
    only: int | None = None


class ErasedMessages(msgspec.Struct, frozen=True, tag="erased_messages"):
    """How many messages were erased up to the serial `after`; `more`: messages follow."""

    count: int
    after: int
    more: bool
    retained: int = 0
    """1 if the channel's retained message was the user's; it is deleted."""


class EraseMessages(_TopicRequest[ErasedMessages], frozen=True, tag="erase_messages"):
    """Erases a user's published messages after the serial `after`; as many as fit into one step."""

    user_id: str
    after: int = 0


def dead_letter_channel(channel: str, options: SubscriptionOptions) -> str:
    return options.dead_letters or dead_letters_of(channel)


def option_problems(options: SubscriptionOptions) -> list[str]:
    """The problems of the options, each with the remedy."""
    problems = []
    if not 1 <= options.lease_seconds <= 3600:
        problems.append(f"leaseSeconds is {options.lease_seconds:g}; give 1 to 3600")
    if not 1 <= options.max_unacknowledged <= 10_000:
        problems.append(f"maxUnacknowledged is {options.max_unacknowledged}; give 1 to 10000")
    if not 0 <= options.max_deliveries <= 1000:
        problems.append(
            f"maxDeliveries is {options.max_deliveries}; give 1 to 1000, 0 for no limit"
        )
    if options.dead_letters is not None and not options.max_deliveries:
        problems.append("deadLetters needs maxDeliveries, after how many a message goes there")
    return problems


def no_topic(hub: str, name: str) -> TopicNotFound:
    return TopicNotFound(f"there is no topic {name!r} in hub {hub!r}; put something first")
