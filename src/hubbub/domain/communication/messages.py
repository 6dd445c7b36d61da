"""Messages between peers, collectives and components, and the hub's own message types."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from hubbub.domain.errors import InvalidAttribute
from hubbub.domain.fields import wire_name

CONTROL: Final = "CONTROL"
AUTH: Final = "AUTH"
MESSAGEINFO: Final = "MESSAGEINFO"
RESERVED_TYPES: Final = frozenset({CONTROL, AUTH, MESSAGEINFO})
"""Message types that the hub itself creates or processes. They never count as a peer's reply."""

ACK: Final = "ACK"
ERROR: Final = "ERROR"
COMERROR: Final = "COMERROR"
DELIVERYERROR: Final = "DELIVERYERROR"
TIMEOUT: Final = "TIMEOUT"
REQUEST: Final = "REQUEST"
REPLY: Final = "REPLY"
FAILED: Final = "FAILED"

COLLECTIVE: Final = "collective:"
COMPONENT: Final = "component:"
STRANGER: Final = "stranger:"
"""The prefix of the receiver of an answer to somebody who is no peer; the address follows."""
AUTHENTICATION_MANAGER: Final = "component:AuthenticationManager"
MESSAGE_INFO_SERVICE: Final = "component:MessageInfoService"
COMMUNICATION: Final = "component:Communication"
"""The sender of reports on messages that name no receiver."""

MAX_TEXT: Final = 256
"""The most characters of a name, an id or a type."""
MAX_TOKEN: Final = 4096
MAX_HEADERS: Final = 8192
MAX_TTL_MS: Final = 366 * 86_400_000
FOLLOWED: Final = ".followed"
"""The id suffix of a message that a peer receives because it follows a channel."""
HUB_IDS: Final = (".verdict", ".auth", ".info", ".notice", FOLLOWED)
"""The id suffixes of messages that the hub creates about another message."""
AWAIT: Final = "await"
"""The header of a message whose reply is awaited: `await: reply`."""
BINARY_LANGUAGE: Final = "binary"
_TEXTS: Final = (
    "id",
    "type",
    "subtype",
    "sender",
    "receiver",
    "conversation_id",
    "language",
    "refers_to",
)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_encoder = msgspec.msgpack.Encoder(order="sorted")

_PRINTED = r"^[^\u0000-\u001f\u007f-\u009f]*$"
FieldText = Annotated[str, Meta(max_length=MAX_TEXT, pattern=_PRINTED)]
"""The bounds of `check_fields` on a message's field, for settings that supply the field."""
NeededText = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT, pattern=_PRINTED)]

Kind = Literal["peer", "collective", "component"]
MessagePolicy = Literal["ACKNOWLEDGED", "UNACKNOWLEDGED"]
if TYPE_CHECKING:
    Content = str | bytes
else:
    Content = Any  # msgspec reads no union of the two; `check_handed_in` refuses others


class PeerMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the communication service. `sender` and `receiver` are identifiers: a bare one
    is a peer, `collective:x` and `component:x` say their kind. An empty text is an absent value,
    except in `content`, where the two are the same. `content` is text, or bytes of any kind."""

    id: str = ""
    """Empty: the hub assigns an id. A message with the same id and content is a duplicate."""
    type: str
    subtype: str
    sender: str = ""
    receiver: str = ""
    conversation_id: str = ""
    language: str = ""
    content: Content = ""
    ttl_ms: int = 0
    """Milliseconds until the message expires; 0: never."""
    security_token: str = ""
    delivery_policy: MessagePolicy = "UNACKNOWLEDGED"
    refers_to: str = ""
    """The id of the message that this one replies to or reports on."""
    headers: dict[str, str] = {}


_decode = msgspec.msgpack.Decoder(PeerMessage).decode


def kind_of(identifier: str) -> Kind:
    """The kind of a sender or receiver."""
    if identifier.startswith(COLLECTIVE):
        return "collective"
    return "component" if identifier.startswith(COMPONENT) else "peer"


def name_of(identifier: str) -> str:
    """A sender or receiver without its kind prefix."""
    return identifier.removeprefix(COLLECTIVE).removeprefix(COMPONENT)


def check_sent(message: PeerMessage) -> PeerMessage:
    """Checks a message that a client wants to send. Raises `InvalidAttribute`, which names the
    field."""
    if message.type in (CONTROL, AUTH):
        raise InvalidAttribute(
            f"type is {message.type!r}, which only the hub sends; choose another type"
        )
    return check_fields(check_question(_of_language(message)))


def check_question(message: PeerMessage) -> PeerMessage:
    """Returns a question about message types with its receiver. Raises `InvalidAttribute` for a
    message of that type to anybody but the service."""
    if message.type != MESSAGEINFO:
        return message
    if message.subtype != REQUEST or message.receiver not in ("", MESSAGE_INFO_SERVICE):
        raise InvalidAttribute(
            f"type is {MESSAGEINFO!r}, which goes to {MESSAGE_INFO_SERVICE!r} alone, with the"
            f" subtype {REQUEST!r}; choose another type"
        )
    return msgspec.structs.replace(message, receiver=MESSAGE_INFO_SERVICE)


def check_fields(message: PeerMessage) -> PeerMessage:
    """Raises `InvalidAttribute`, which names the field that is missing or out of bounds."""
    for name in ("type", "subtype", "sender"):
        if not getattr(message, name):
            raise InvalidAttribute(f"{name} is missing; every message needs one")
    together = "".join([getattr(message, name) for name in _TEXTS])
    usual = len(together) <= MAX_TEXT and together.isprintable()
    for name in () if usual else _TEXTS:
        text = getattr(message, name)
        if len(text) > MAX_TEXT or _CONTROL.search(text):
            raise InvalidAttribute(
                f"{wire_name(name)} is {text[:40]!r}; give at most {MAX_TEXT} characters without "
                "control characters"
            )
    for name in ("sender", "receiver"):
        identifier = getattr(message, name)
        if identifier and not name_of(identifier):
            raise InvalidAttribute(f"{name} is {identifier!r}; a name must follow the colon")
    if message.receiver.startswith(STRANGER) or message.sender.startswith(STRANGER):
        raise InvalidAttribute(
            "strangers are only answered: leave the receiver out, and refer to their message"
            " (refersTo)"
        )
    if message.id.endswith(HUB_IDS):
        raise InvalidAttribute(
            f"id is {message.id[:40]!r}; ids that end with {' or '.join(HUB_IDS)} are the hub's own"
        )
    if not 0 <= message.ttl_ms <= MAX_TTL_MS:
        raise InvalidAttribute(f"ttl is {message.ttl_ms}; give 0 to {MAX_TTL_MS} milliseconds")
    if len(message.security_token) > MAX_TOKEN:
        raise InvalidAttribute(f"securityToken has more than {MAX_TOKEN} characters")
    if message.headers:
        headers = sum(len(name) + len(text) for name, text in message.headers.items())
        if headers > MAX_HEADERS:
            raise InvalidAttribute(f"headers have {headers} characters; at most {MAX_HEADERS} fit")
    return message


def check_handed_in(message: PeerMessage) -> PeerMessage:
    """Checks a message that third-party code created, including the types of its fields. Raises
    `InvalidAttribute`."""
    try:
        read = _decode(_encoder.encode(message))
    except (msgspec.MsgspecError, UnicodeError, TypeError, ValueError) as error:
        raise InvalidAttribute(f"the adapter gave what is no message: {error}") from None
    if not isinstance(read.content, str | bytes):
        found = type(read.content).__name__
        raise InvalidAttribute(f"the content is neither text nor bytes but {found!r}")
    return _of_language(read)


def _of_language(message: PeerMessage) -> PeerMessage:
    """Sets the language `binary` on a binary content for which the sender names none: privacy
    policies distinguish messages by language."""
    if isinstance(message.content, str) or message.language:
        return message
    return msgspec.structs.replace(message, language=BINARY_LANGUAGE)


def awaits_reply(message: PeerMessage) -> bool:
    """Whether the message is complete only when another message refers to it."""
    return message.headers.get(AWAIT) == "reply"


def may_reply(message: PeerMessage) -> bool:
    """Whether the message can count as a reply to the message that it refers to."""
    return bool(message.refers_to) and message.type not in RESERVED_TYPES


def digest(message: PeerMessage) -> bytes:
    """Distinguishes messages with the same id. The id and the token are excluded, since a sender
    may repeat a message with a newer token; so is the content of a login, since its hash on disk
    would be the hash of a password."""
    content = "" if message.type == AUTH else message.content
    without = msgspec.structs.replace(message, id="", security_token="", content=content)
    return blake2b(_encoder.encode(without), digest_size=16).digest()
