"""The JSON of the hub's own HTTP API, for its description: derived from the structs of the domain
and the messages of spec/hubbub.proto, as the codecs are (`protocols.mapping`). By hand are only
names, sentences, and bounds, which the domain checks itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from msgspec import NODEFAULT, UNSET, Meta, UnsetType

from hubbub.domain import notices, requests
from hubbub.domain.envelope import MAX_TEXT, NUMBERS, OBJECTS, TEXTS
from hubbub.domain.envelope_headers import FIELDS, IDEMPOTENCY_HEADER, SECURITY_HEADER
from hubbub.domain.fields import Name, UserId, wire_name
from hubbub.domain.notifications import Notification as KeptNotification
from hubbub.domain.notifications import NotificationItem
from hubbub.domain.search import SearchHit as FoundMessage
from hubbub.domain.search import SearchPage as FoundPage
from hubbub.domain.threads import Thread as Conversation
from hubbub.domain.topics import Article, SubscriptionInfo, SubscriptionOptions
from hubbub.gateways.admin.shapes import ErrorInfo
from hubbub.gateways.calls import TOPIC_KEY_HEADER, EventName
from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.json.notifications_http import Identifier, Time
from hubbub.protocols.mapping import (
    Cardinality,
    Kind,
    MappedField,
    derived_fields,
    descriptor,
    members,
)

Serial = Annotated[
    str, Meta(description="A whole number as text.", extra_json_schema={"pattern": "^[0-9]+$"})
]


class Open(msgspec.Struct, frozen=True, kw_only=True, rename=wire_name):
    """Base of all: more fields may be added."""


class Payload(Open, frozen=True):
    """Exactly one of the three."""

    json: Any = msgspec.UNSET
    text: str | msgspec.UnsetType = msgspec.UNSET
    base64: bytes | msgspec.UnsetType = msgspec.UNSET


# -- from the domain and the .proto ---------------------------------------------------------------

_SCALARS: dict[int, Any] = {
    FieldDescriptor.TYPE_STRING: str,
    FieldDescriptor.TYPE_BOOL: bool,
    FieldDescriptor.TYPE_INT64: int,
    FieldDescriptor.TYPE_INT32: int,
    FieldDescriptor.TYPE_DOUBLE: float,
}
_KINDS: dict[Kind, Any] = {
    Kind.SERIAL: Serial,
    Kind.OBJECT: dict[str, Any],
    Kind.PAYLOAD: Payload,
    Kind.ERROR: ErrorInfo,
}
_derived: dict[tuple[str, bool], Any] = {}
"""By message name, and whether clients write the message."""


class _ProtoField(NamedTuple):
    name: str
    type: Any
    default: Any = NODEFAULT
    """UNSET: it may be missing in what the hub writes."""


_Fields = dict[str, _ProtoField]
"""By name in the .proto."""


def derive(
    name: str,
    struct: type[msgspec.Struct],
    message: type[Any],
    text: str = "",
    *,
    given: bool = False,
    closed: bool = False,
    without: Iterable[str] = (),
    always: Iterable[str] = (),
    types: Mapping[str, Any] | None = None,
) -> Any:
    """The type of the JSON in which the hub writes a struct as a message; or, `given`, in which
    clients write it. A message inside is the type that was derived for it before. By names in the
    .proto: `without` are fields that this answer does not have, `always` those that it never
    lacks, `types` those with bounds or a meaning of their own: a type, or a `Meta`. `closed`: other
    fields are refused."""
    found = _fields(struct, descriptor(message), given)
    for each in without:
        del found[each]
    for each in always:
        found[each] = found[each]._replace(default=NODEFAULT)
    for each, kind in (types or {}).items():
        if each in found:
            bounded = Annotated[found[each].type, kind] if isinstance(kind, Meta) else kind
            found[each] = found[each]._replace(type=bounded)
    derived = _define(name, text, found, closed)
    _derived.setdefault((message.DESCRIPTOR.name, given), derived)
    return derived


def _define(name: str, text: str, found: _Fields, closed: bool = False) -> Any:
    fields: list[Any] = [
        (each, field.type) if field.default is NODEFAULT else (each, *_optional(field))
        for each, field in found.items()
    ]
    return msgspec.defstruct(
        name,
        fields,
        rename={each: field.name for each, field in found.items()},
        kw_only=True,
        frozen=True,
        forbid_unknown_fields=closed,
        namespace={"__doc__": text},
    )


def _optional(field: _ProtoField) -> tuple[Any, Any]:
    kind = UnsetType if field.default is UNSET else None
    return (field.type if field.default not in (UNSET, None) else field.type | kind), field.default


def _fields(
    struct: type[msgspec.Struct], message: Descriptor, given: bool, optional: bool = False
) -> _Fields:
    found: _Fields = {}
    if not given:
        for each in derived_fields(struct, message):
            found[each.name] = _ProtoField(each.json_name, _SCALARS[each.type])
    inside: dict[str, _Fields] = {}
    for member in members(struct, message):
        if member.wire.local:
            continue
        if member.wire.flat or member.wire.flat_in_json:
            holder = member.message or message
            found |= _fields(member.type, holder, given, optional or member.nullable)
        elif member.wire.inside:
            inside.setdefault(member.wire.inside, {}).update(_field(member, given, optional))
        else:
            found |= _field(member, given, optional)
            if member.kind is Kind.PAYLOAD:
                found["content_type"] = _ProtoField("contentType", str, None if given else UNSET)
    for name, held in inside.items():
        around = message.fields_by_name[name].message_type
        assert around is not None
        found[name] = _ProtoField(name, _define(*_HOLDERS[around.name], held), None)
    return found


_HOLDERS = {"ChannelPubExtras": ("PublishExtras", "What a message asks for beside its delivery.")}
"""Names and descriptions, by the names of the messages."""


def _field(member: MappedField, given: bool, optional: bool) -> _Fields:
    field = member.field
    assert field is not None
    default = _given_default(member) if given else _written_default(member)
    if optional and default is NODEFAULT:
        default = None if given else UNSET
    return {field.name: _ProtoField(field.json_name, _type(member, given), default)}


def _given_default(member: MappedField) -> Any:
    if member.required:
        return NODEFAULT
    plain = member.kind is Kind.PLAIN and isinstance(member.default, bool | int | float)
    return member.default if plain else None


def _written_default(member: MappedField) -> Any:
    """The default of a field that `protocols.structs` omits."""
    assert member.field is not None
    if member.kind is Kind.PAYLOAD:
        return NODEFAULT
    has_presence = member.field.has_presence and member.kind is not Kind.SERIAL
    always = member.keeps_zero or (has_presence and not member.nullable)
    return NODEFAULT if always else UNSET


def _type(member: MappedField, given: bool) -> Any:
    assert member.field is not None
    if member.kind in _KINDS:
        one = _KINDS[member.kind]
    elif member.message is None:
        one = _SCALARS[member.field.type]
    else:
        one = _derived[member.message.name, given]
    if member.shape is Cardinality.MAP:
        return dict.__class_getitem__((str, one))
    return list.__class_getitem__(one) if member.shape is Cardinality.LIST else one


# -- messages -------------------------------------------------------------------------------------

_Text = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT, description="Printable characters.")]
_ENVELOPE: dict[str, Any] = {
    **dict.fromkeys(TEXTS, _Text),
    **{name: Meta(ge=0, le=most) for name, most in NUMBERS.items()},
}
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
    **{
        FIELDS[name]: Annotated[
            int, Meta(ge=0, le=most, description="As the field of the envelope.")
        ]
        for name, most in NUMBERS.items()
    },
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


Producer = derive(
    "Producer", requests.Producer, pb.ProducerInfo,
    "As which of its puts to the channel a producer sends a message; the first is 1.", given=True,
    types={
        "id": Name,
        "sequence": Meta(extra_json_schema={"pattern": "^[1-9][0-9]{0,17}$"}),
        "fence": Meta(extra_json_schema={"pattern": "^[0-9]{1,18}$"}),
    },
)  # fmt: skip
_RARER = "The rarer fields of the envelope; `relevantUntil` is in ms since 1970, `ttl` in ms."
PublishRequest = derive(
    "PublishRequest", requests.PublishItem, pb.PubRequestInfo, _RARER, given=True,
    without=("req_id",), types={"channel": Name, **_ENVELOPE},
)  # fmt: skip
PublishBatch = derive(
    "PublishBatch", requests.Publish, pb.ChannelPubRequest,
    "Messages to publish, in this order.", given=True,
    types={"publishes": Meta(min_length=1)},
)  # fmt: skip
PublishResult = derive(
    "PublishResult",
    notices.PublishResult,
    pb.Response,
    "What became of one message of the request.",
    without=("req_id",),
)
PublishResults = derive(
    "PublishResults", notices.Published, pb.ChannelPubResponse,
    "A result for each message, in their order.",
)  # fmt: skip
Published = derive(
    "Published", notices.PublishResult, pb.Response,
    "The message is published, and stored where the rules store it.",
    without=("req_id", "success", "error"),
    always=("msg_id",),
)  # fmt: skip
PublishedMessage = derive(
    "PublishedMessage", notices.MessageDelivery, pb.ChannelPublish, "`ts` is in ms since 1970.",
    types=_ENVELOPE,
)  # fmt: skip
HistoryPage = derive(
    "HistoryPage", notices.HistoryPage, pb.HistoryResponse,
    "`recovered` is false where something that was asked for is gone.", without=("req_id", "error"),
    types={"next": Meta(description="With filters: `after` or `before` of the page that follows.")},
)  # fmt: skip
Thread = derive(
    "Thread", Conversation, pb.Thread,
    "A conversation, as far as its messages are still stored: `first` is the oldest of them; "
    "`updatedAt` is in ms since 1970; `status` is what the newest `hConvState` message says.",
)  # fmt: skip
ThreadsPage = derive(
    "ThreadsPage", notices.ThreadsPage, pb.ThreadsResponse,
    "The next page begins behind the `channelSerial` of the last thread's first message.",
    without=("req_id", "error"),
)  # fmt: skip
SearchHit = derive(
    "SearchHit", FoundMessage, pb.SearchHit, "`score` is greater for better hits, from 0 to 1.",
    always=("score",),
)  # fmt: skip
SearchPage = derive(
    "SearchPage", FoundPage, pb.SearchResponse,
    "`cursor` is there where more may follow. `behind` channels are not completely indexed yet.",
    without=("req_id", "error"),
)  # fmt: skip
PresenceMember = derive(
    "PresenceMember", notices.Member, pb.PresenceMember, "`ts` is in ms since 1970.",
    types={"data": Meta(description="What the session said of itself; nobody vouches for it.")},
)  # fmt: skip
PresenceList = derive(
    "PresenceList",
    notices.Presence,
    pb.PresenceNotice,
    "The sessions that are present in a channel.",
    without=("req_id", "error"),
)

# -- topics ---------------------------------------------------------------------------------------

TopicOptions = derive(
    "TopicOptions", SubscriptionOptions, pb.TopicOptions,
    "How a subscription hands its messages out.", given=True, closed=True,
    types={
        "shared": Meta(description="Each message goes to one of the consumers."),
        "lease_seconds": Meta(
            ge=1, le=3600, description="Time to acknowledge, where it is shared."
        ),
        "max_unacknowledged": Meta(
            ge=1, le=10_000, description="Handed out at a time, where it is shared."
        ),
        "max_deliveries": Meta(
            ge=0, le=1000, description="After so many it is a dead letter; 0: never."
        ),
        "dead_letters": Annotated[
            Name, Meta(description="Their channel; without it `<topic>.dead`.")
        ],
    },
)  # fmt: skip
_derived["TopicOptions", False] = TopicOptions
_STATE = (
    "`lag` counts what is not acknowledged, `handedOut` what of it a consumer holds, `missed` what "
    "a limit deleted before. `createdAt` is in ms since 1970."
)
TopicState = derive("TopicState", SubscriptionInfo, pb.TopicState, _STATE)
TopicSubscribed = derive(
    "TopicSubscribed", notices.TopicSubscribed, pb.TopicState,
    "Where the subscription stands; `new`: this request created it.",
    without=("req_id",), types={"answer": Literal["SUBSCRIBED"]},
)  # fmt: skip
TopicUnsubscribed = derive(
    "TopicUnsubscribed", notices.TopicUnsubscribed, pb.TopicState,
    "The durable subscription that is gone.",
    without=("req_id", "topic", "name"), types={"answer": Literal["UNSUBSCRIBED"]},
)  # fmt: skip
TopicStates = derive(
    "TopicStates",
    notices.TopicSubscriptions,
    pb.TopicSubscriptionsNotice,
    "The caller's durable subscriptions.",
    without=("req_id",),
)
ProducerState = derive(
    "ProducerState", notices.ProducerOpened, pb.ProducerOpenedNotice,
    '`sequence` is that of the last put that is on disk, "0" before the first.',
    without=("topic", "producer", "req_id"),
)  # fmt: skip
TopicArticle = derive(
    "TopicArticle", Article, pb.TopicArticle,
    "`deliveries`: how often it was handed out, as far as is known. `redelivered`: it may have "
    "been handed out before.", types=_ENVELOPE,
)  # fmt: skip
TopicArticles = derive(
    "TopicArticles", notices.TopicArticles, pb.TopicArticles, "Messages of one topic.",
    types={"answer": Literal["TopicArticle", "EmptyTopic"]},
)  # fmt: skip
EachTopic = derive(
    "EachTopic",
    notices.EachTopicMessages,
    pb.TopicMessagesNotice,
    "Messages by topic.",
    without=("name", "req_id"),
)
TopicAcked = derive(
    "TopicAcked", notices.TopicAcked, pb.TopicAckedNotice,
    "Everything up to `floor` is done, and that is on disk.", without=("topic", "name", "req_id"),
    types={"answer": Literal["Ack"]},
)  # fmt: skip


class PutReply(Open, frozen=True):
    """`duplicate`: it was there already. Id and serial are missing once it is reclaimed."""

    answer: Literal["PutReply"]
    duplicate: bool
    msg_id: str | UnsetType = UNSET
    channel_serial: Serial | UnsetType = UNSET


# -- notifications --------------------------------------------------------------------------------

NewNotification = derive(
    "NewNotification", NotificationItem, pb.NotificationItem,
    "An `id` makes it repeatable: the same content again is a duplicate.", given=True,
    types={"id": Identifier, "event": EventName, "author": UserId, "expires_at": Time},
)  # fmt: skip
Notification = derive(
    "Notification", KeptNotification, pb.Notification,
    "`ts` is unique in the channel and rises; times are ms since 1970.",
)  # fmt: skip
NotificationPage = derive(
    "NotificationPage", notices.NotificationPage, pb.NotificationListResponse,
    "`revision` rises with each change, `newest` is the `ts` of the last one ever created.",
    without=("req_id",),
)  # fmt: skip

# -- the server's pages ---------------------------------------------------------------------------


class Health(Open, frozen=True):
    """The process answers."""

    status: str
    version: str


class Readiness(Open, frozen=True):
    """Whether the node accepts requests, and the reasons if not."""

    status: str
    reason: str | msgspec.UnsetType = msgspec.UNSET
