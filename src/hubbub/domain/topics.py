"""Topics: stored channels whose messages are put and fetched, exactly once.

A producer numbers its puts, so that a repeat is known however late it comes. A durable
subscription has a place in the channel that survives everything; its messages are fetched with
`get` and are done when they are acknowledged.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from hubbub.domain.communication.requests import (
    ANSWERS,
    CommunicationAnswer,
    CommunicationRequest,
)
from hubbub.domain.documents.changes import ChangeOutcome
from hubbub.domain.messages import Message
from hubbub.domain.names import DEAD_LETTER_SUFFIX
from hubbub.domain.permissions import Identity, Level, Reader
from hubbub.domain.webhooks import Replayed, WebhookStatus
from hubbub.domain.wire import ALWAYS, FLAT, LOCAL, Wire

DEFAULT_SUBSCRIPTION = "default"
MAX_BATCH = 1000
MAX_AHEAD = 10_000
"""How far behind the first unacknowledged message one can fetch."""
MAX_WAIT_SECONDS = 60.0
DEFAULT_LEASE_SECONDS = 30.0


def principal_of(identity: Identity) -> str:
    """Whose producers and subscriptions these are. Nobody reaches those of another; callers that
    have no name share what they make."""
    if identity.user_id is not None:
        return f"u:{identity.user_id}"
    return "anonymous" if identity.level is Level.CLIENT else identity.level.value


def user_of(principal: str) -> str | None:
    """The user behind a principal; None for callers that have no name."""
    return principal[2:] if principal.startswith("u:") else None


class ProducerState(msgspec.Struct, frozen=True):
    """`sequence` is that of the last put that is on disk, 0 before the first."""

    fence: int
    sequence: int


class SubscriptionOptions(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, rename="camel"
):
    """How a durable subscription hands its messages out.

    Not shared: every `get` answers the first messages that are not acknowledged, in order. Shared:
    each message goes to one of the consumers that ask, under a lease; what is not acknowledged
    when the lease runs out goes to another.
    """

    shared: bool = False
    lease_seconds: float = DEFAULT_LEASE_SECONDS
    max_unacknowledged: int = 1000
    """Shared: at most so many messages are handed out and not acknowledged at a time."""
    max_deliveries: int = 0
    """After so many, a message goes to the dead letters; 0: never."""
    dead_letters: str | None = None
    """Their channel, which must store; None: `<channel>.dead`."""


class SubscriptionKey(msgspec.Struct, frozen=True):
    hub: Annotated[str, LOCAL]
    channel: Annotated[str, Wire("topic")]
    owner: Annotated[str, LOCAL]
    """As `principal_of` answers it."""
    name: Annotated[str, ALWAYS] = DEFAULT_SUBSCRIPTION


class Lag(msgspec.Struct, frozen=True):
    """How many messages a durable subscription still has to get, and how it went with others."""

    key: SubscriptionKey
    messages: int
    handed_out: int = 0
    redeliveries: int = 0
    dead_letters: int = 0


class SubscribeTopic(msgspec.Struct, frozen=True, tag="subscribe_topic"):
    """`start`: `new` (what is put from now on), `first` (everything that is still there), or the
    serial behind which to begin. An existing subscription keeps its place."""

    key: SubscriptionKey
    options: SubscriptionOptions | None = None
    """None: those that it has, or the usual ones."""
    start: Literal["new", "first"] | int = "new"


class UnsubscribeTopic(msgspec.Struct, frozen=True, tag="unsubscribe_topic"):
    key: SubscriptionKey


class GetMessages(msgspec.Struct, frozen=True, tag="get_messages"):
    """`ack_up_to` acknowledges first, in the same step. The owner hands out nothing that `reader`
    may not read when it does so."""

    key: SubscriptionKey
    reader: Reader
    limit: int = 1
    wait_seconds: float = 0.0
    consumer: str = ""
    """Tells those that share a subscription apart."""
    ack_up_to: int | None = None
    after: int = 0
    """Not shared: only what is behind this serial, since the caller holds the rest already. So it
    can fetch the next messages before it has acknowledged the last ones."""
    technology: str = ""
    """The way out, for the journal; nothing for webhooks, whose attempts say it."""


class Acknowledge(msgspec.Struct, frozen=True, tag="acknowledge"):
    """Exactly one of the two is given. `up_to` on a shared subscription means: of those that this
    consumer was handed. `give_back`: not done, hand them out again at once."""

    key: SubscriptionKey
    serials: tuple[int, ...] = ()
    up_to: int | None = None
    consumer: str = ""
    give_back: bool = False
    dead: bool = False
    """They could not be done: put them to the dead letters. Answered when that is on disk."""
    expired: bool = False
    """Their time to live was over before they could be done."""
    replayed: bool = False
    """The messages were dead letters, and a replay delivered them."""


class DescribeSubscription(msgspec.Struct, frozen=True, tag="describe_subscription"):
    key: SubscriptionKey


class OpenProducer(msgspec.Struct, frozen=True, tag="open_producer"):
    """Take a producer over."""

    hub: str
    channel: str
    principal: str
    producer: str


class FindPut(msgspec.Struct, frozen=True, tag="find_put"):
    """Whether this put, which carries a stamp, would be a repeat."""

    message: Message


class FoundPut(msgspec.Struct, frozen=True):
    """The original of a repeat; it has no serial (0) and no id once it has been reclaimed."""

    serial: int = 0
    message_id: str | None = None
    change: ChangeOutcome | None = None
    """Of a change of a document, which is known for good."""


class Article(msgspec.Struct, frozen=True):
    """A message that a subscription hands out."""

    message: Annotated[Message, FLAT]
    deliveries: Annotated[int, ALWAYS] = 1
    """How often it was handed out, as far as is known."""
    redelivered: Annotated[bool, ALWAYS] = False
    """It may have been handed out before."""


class SubscriptionInfo(msgspec.Struct, frozen=True):
    """Where a durable subscription stands."""

    key: Annotated[SubscriptionKey, FLAT]
    options: SubscriptionOptions
    epoch: str
    floor: int
    """Everything up to this serial is done."""
    head: int
    """The channel's newest serial."""
    lag: int
    """Messages that are not acknowledged."""
    handed_out: int
    """Of those, the ones that a consumer holds right now."""
    created_at: int
    """Milliseconds since 1970."""
    redeliveries: int = 0
    dead_letters: int = 0
    missed: int = 0
    """Messages that a limit of the channel deleted before this subscription got them."""
    new: bool = False
    """It came into being by this request."""


class WebhookChanged(msgspec.Struct, frozen=True, tag="webhook_changed"):
    """Its row in the store is new or another: whoever drives it reads it again."""

    hub: str
    channel: str
    webhook: str


class TopicPinged(msgspec.Struct, frozen=True, tag="topic_pinged"):
    """Its row in the store says that there is something to be fetched."""

    hub: str
    channel: str


class DescribeWebhook(msgspec.Struct, frozen=True, tag="describe_webhook"):
    hub: str
    channel: str
    webhook: str


class ReplayWebhook(msgspec.Struct, frozen=True, tag="replay_webhook"):
    """Send dead letters of a webhook again, those behind `after`, or `only` one, by its serial; as
    many as a moment allows."""

    hub: str
    channel: str
    webhook: str
    after: int = 0
    only: int | None = None


class EraseMessages(msgspec.Struct, frozen=True, tag="erase_messages"):
    """Take out what a user published, of the messages behind the serial `after`; as many as a
    moment allows."""

    hub: str
    channel: str
    user_id: str
    after: int = 0


class ErasedMessages(msgspec.Struct, frozen=True, tag="erased_messages"):
    """How many there were up to the serial `after`; `more`: there are messages behind it."""

    count: int
    after: int
    more: bool


WebhookRequest = WebhookChanged | TopicPinged | DescribeWebhook | ReplayWebhook

SubscriptionRequest = (
    GetMessages | Acknowledge | SubscribeTopic | UnsubscribeTopic | DescribeSubscription
)
TopicRequest = (
    SubscriptionRequest
    | OpenProducer
    | FindPut
    | EraseMessages
    | WebhookRequest
    | CommunicationRequest
)
TopicAnswer = (
    SubscriptionInfo
    | ProducerState
    | FoundPut
    | ErasedMessages
    | WebhookStatus
    | Replayed
    | tuple[Article, ...]
    | CommunicationAnswer
)


def channel_of(request: TopicRequest) -> tuple[str, str]:
    """Hub and channel that a request is about."""
    if isinstance(request, SubscriptionRequest):
        return request.key.hub, request.key.channel
    if isinstance(request, FindPut):
        return request.message.hub, request.message.channel
    return request.hub, request.channel


def answer_type(request: TopicRequest) -> Any:
    """The type of what a request is answered with, for those who read it from bytes."""
    return _ANSWERS[type(request)]


_ANSWERS: dict[type, Any] = {
    SubscribeTopic: SubscriptionInfo,
    UnsubscribeTopic: None,
    DescribeSubscription: SubscriptionInfo,
    GetMessages: tuple[Article, ...],
    Acknowledge: int,
    OpenProducer: ProducerState,
    FindPut: FoundPut | None,
    EraseMessages: ErasedMessages,
    WebhookChanged: None,
    TopicPinged: None,
    DescribeWebhook: WebhookStatus,
    ReplayWebhook: Replayed,
    **ANSWERS,
}


def dead_letter_channel(channel: str, options: SubscriptionOptions) -> str:
    return options.dead_letters or channel + DEAD_LETTER_SUFFIX


def option_problems(options: SubscriptionOptions) -> list[str]:
    """What is wrong with the options, each with the remedy."""
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
