"""Topics: stored channels whose messages are put and fetched, exactly once.

A producer numbers its puts, so that a repeat is known however late it comes. A durable
subscription has a place in the channel that survives everything; its messages are fetched with
`get` and are done when they are acknowledged.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from hubbub.domain.messages import Message
from hubbub.domain.permissions import Identity, Level

DEFAULT_SUBSCRIPTION = "default"
MAX_BATCH = 1000
MAX_WAIT_SECONDS = 60.0
DEFAULT_LEASE_SECONDS = 30.0


def principal_of(identity: Identity) -> str:
    """Whose producers and subscriptions these are. Nobody reaches those of another; callers that
    have no name share what they make."""
    if identity.user_id is not None:
        return f"u:{identity.user_id}"
    return "anonymous" if identity.level is Level.CLIENT else identity.level.value


class Stamp(msgspec.Struct, frozen=True):
    """Who put a message, and as which of its puts to this channel: the first is 1. `fence` is what
    opening the producer answered; 0: the caller does without."""

    principal: str
    producer: str
    sequence: int
    fence: int = 0


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
    hub: str
    channel: str
    owner: str
    """As `principal_of` answers it."""
    name: str = DEFAULT_SUBSCRIPTION


class SubscribeTopic(msgspec.Struct, frozen=True):
    """`start`: `new` (what is put from now on), `first` (everything that is still there), or the
    serial behind which to begin. An existing subscription keeps its place."""

    key: SubscriptionKey
    options: SubscriptionOptions | None = None
    """None: those that it has, or the usual ones."""
    start: Literal["new", "first"] | int = "new"


class UnsubscribeTopic(msgspec.Struct, frozen=True):
    key: SubscriptionKey


class GetMessages(msgspec.Struct, frozen=True):
    """`ack_up_to` acknowledges first, in the same step."""

    key: SubscriptionKey
    limit: int = 1
    wait_seconds: float = 0.0
    consumer: str = ""
    """Tells those that share a subscription apart."""
    ack_up_to: int | None = None


class Acknowledge(msgspec.Struct, frozen=True):
    """Exactly one of the two is given. `up_to` on a shared subscription means: of those that this
    consumer was handed. `give_back`: not done, hand them out again at once."""

    key: SubscriptionKey
    serials: tuple[int, ...] = ()
    up_to: int | None = None
    consumer: str = ""
    give_back: bool = False


class Article(msgspec.Struct, frozen=True):
    """A message that a subscription hands out."""

    message: Message
    deliveries: int = 1
    """How often it was handed out, as far as is known."""
    redelivered: bool = False
    """It may have been handed out before."""


class SubscriptionInfo(msgspec.Struct, frozen=True):
    """Where a durable subscription stands."""

    key: SubscriptionKey
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
