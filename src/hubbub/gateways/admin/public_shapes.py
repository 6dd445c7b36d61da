"""The JSON of the hub's own HTTP API, for its description. `protocols.json` reads and writes
the same; a test holds the two together."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hubbub.domain.envelope import HIGHEST_PRIORITY, MAX_TEXT, NUMBERS, OBJECTS, TEXTS
from hubbub.domain.envelope_headers import FIELDS, IDEMPOTENCY_HEADER, SECURITY_HEADER
from hubbub.domain.fields import Name, wire_name
from hubbub.gateways.admin.shapes import ErrorInfo
from hubbub.gateways.calls import TOPIC_KEY_HEADER

Serial = Annotated[
    str, Meta(description="A whole number as text.", extra_json_schema={"pattern": "^[0-9]+$"})
]
_Text = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT, description="Printable characters.")]
_Milliseconds = Annotated[int, Meta(ge=0, le=2**53 - 1)]


class Open(msgspec.Struct, frozen=True, kw_only=True, rename=wire_name):
    """Base of all: more fields may be added."""


class Payload(Open, frozen=True):
    """Exactly one of the three."""

    json: Any = msgspec.UNSET
    text: str | msgspec.UnsetType = msgspec.UNSET
    base64: bytes | msgspec.UnsetType = msgspec.UNSET


class PublishExtras(Open, frozen=True):
    store: bool = False
    push: bool = False
    push_options: dict[str, Any] | None = None
    retain: bool = False
    transient: bool = False


class Producer(Open, frozen=True):
    """As which of its puts to the channel a producer sends a message; the first is 1."""

    id: Name
    sequence: Annotated[Serial, Meta(extra_json_schema={"pattern": "^[1-9][0-9]{0,17}$"})]
    fence: Annotated[Serial, Meta(extra_json_schema={"pattern": "^[0-9]{1,18}$"})] | None = None


class EnvelopeFields(Open, frozen=True, kw_only=True):
    """The rarer fields of the envelope; `relevantUntil` is in ms since 1970, `ttl` in ms."""

    subtype: _Text | None = None
    author: _Text | None = None
    sender: _Text | None = None
    receiver: _Text | None = None
    conversation_id: _Text | None = None
    refers_to: _Text | None = None
    priority: Annotated[int, Meta(ge=0, le=HIGHEST_PRIORITY)] | None = None
    relevant_until: _Milliseconds | None = None
    ttl: _Milliseconds | None = None
    language: _Text | None = None
    location: dict[str, Any] | None = None
    headers: dict[str, Any] | None = None
    delivery_policy: _Text | None = None


_HeaderText = Annotated[
    str,
    Meta(
        min_length=1,
        description="As the field of the envelope; all but visible ASCII percent-encoded.",
        extra_json_schema={"pattern": "^([!-$&-~]|%[0-9A-Fa-f]{2})+$"},
    ),
]
_HeaderObject = Annotated[
    str,
    Meta(description="A JSON object in ASCII.", extra_json_schema={"pattern": r"^\{[ -~]*\}$"}),
]
ENVELOPE_HEADERS: dict[str, Any] = {
    **{FIELDS[name]: _HeaderText for name in TEXTS},
    **{FIELDS[name]: Annotated[int, Meta(ge=0, le=most)] for name, most in NUMBERS.items()},
    **{FIELDS[name]: _HeaderObject for name in OBJECTS},
    SECURITY_HEADER: Annotated[
        _HeaderText, Meta(description="For features that ask for one; nobody gets it.")
    ],
    TOPIC_KEY_HEADER: Annotated[
        str,
        Meta(
            description="The key of a registered topic.", extra_json_schema={"pattern": "^[!-~]+$"}
        ),
    ],
}
"""The envelope of a message whose body is the payload alone."""
PUBLISH_HEADERS: dict[str, Any] = {
    **ENVELOPE_HEADERS,
    IDEMPOTENCY_HEADER: Annotated[
        str,
        Meta(
            description="A repeat under the same key is answered like the original.",
            extra_json_schema={"pattern": "^[!-$&-~]+$", "maxLength": 255},
        ),
    ],
}


class PublishRequest(EnvelopeFields, frozen=True, kw_only=True):
    channel: Name
    payload: Payload
    event: str | None = None
    extra: PublishExtras | None = None
    content_type: str | None = None
    producer: Producer | None = None
    security_token: str | None = None
    idempotency_key: str | None = None


class PublishBatch(Open, frozen=True):
    publishes: Annotated[list[PublishRequest], Meta(min_length=1)]


class PublishResult(Open, frozen=True):
    success: bool
    msg_id: str | msgspec.UnsetType = msgspec.UNSET
    channel_serial: Serial | msgspec.UnsetType = msgspec.UNSET
    duplicate: bool | msgspec.UnsetType = msgspec.UNSET
    error: ErrorInfo | msgspec.UnsetType = msgspec.UNSET


class PublishResults(Open, frozen=True):
    """A result for each message, in their order."""

    published: list[PublishResult]


class Published(Open, frozen=True):
    msg_id: str
    channel_serial: Serial | msgspec.UnsetType = msgspec.UNSET
    duplicate: bool | msgspec.UnsetType = msgspec.UNSET


class PublishedMessage(EnvelopeFields, frozen=True, kw_only=True):
    """`ts` is in ms since 1970."""

    channel: str
    event: str
    payload: Payload
    msg_id: str
    timestamp: int = msgspec.field(name="ts")
    channel_serial: Serial | msgspec.UnsetType = msgspec.UNSET
    content_type: str | msgspec.UnsetType = msgspec.UNSET
    publisher: str | msgspec.UnsetType = msgspec.UNSET
    retained: bool | msgspec.UnsetType = msgspec.UNSET
    previous_serial: Serial | msgspec.UnsetType = msgspec.UNSET


class HistoryPage(Open, frozen=True):
    """`recovered` is false where something that was asked for is gone."""

    channel: str
    messages: list[PublishedMessage]
    recovered: bool
    more: bool
    epoch: str | msgspec.UnsetType = msgspec.UNSET
    head: Serial | msgspec.UnsetType = msgspec.UNSET
    next: Serial | msgspec.UnsetType = msgspec.UNSET
    """With filters: `after` or `before` of the page that follows."""


class Thread(Open, frozen=True):
    """A conversation, as far as its messages are still stored: `first` is the oldest of them;
    `updatedAt` is in ms since 1970; `status` is what the newest `hConvState` message says."""

    conversation_id: str
    first: PublishedMessage
    messages: int
    last_serial: Serial
    updated_at: int
    status: str | msgspec.UnsetType = msgspec.UNSET


class ThreadsPage(Open, frozen=True):
    """The next page begins behind the `channelSerial` of the last thread's first message."""

    channel: str
    threads: list[Thread]
    more: bool
    epoch: str | msgspec.UnsetType = msgspec.UNSET


class PresenceMember(Open, frozen=True):
    """`ts` is in ms since 1970."""

    session_id: str
    timestamp: int = msgspec.field(name="ts")
    user_id: str | None = None
    extra: dict[str, Any] = {}
    data: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """What the session said of itself; nobody vouches for it."""


class PresenceList(Open, frozen=True):
    channel: str
    presence: list[PresenceMember]


class Health(Open, frozen=True):
    status: str
    version: str


class Readiness(Open, frozen=True):
    status: str
    reason: str | msgspec.UnsetType = msgspec.UNSET
