"""Messages to peers in JSON, for every protocol and every adapter that speaks JSON."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hubbub.domain.communication.messages import MessagePolicy, PeerMessage
from hubbub.domain.errors import InvalidAttribute, InvalidPayload
from hubbub.domain.fields import wire_name

_BASE64 = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"


class WrittenContent(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Exactly one of the two fields is set; `base64` holds binary content."""

    text: str | UnsetType = UNSET
    base64: Annotated[bytes, Meta(extra_json_schema={"pattern": _BASE64})] | UnsetType = UNSET


class MessageBody(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    rename=wire_name,
):
    """A message. `type` and `subtype` are required; without an id, the hub assigns one. The content
    is text, or `{"base64": …}` for bytes."""

    id: str = ""
    type: str = ""
    subtype: str = ""
    sender: str = ""
    receiver: str = ""
    conversation_id: str = ""
    language: str = ""
    content: str | WrittenContent = ""
    ttl: int = 0
    """Milliseconds; 0: no limit."""
    security_token: str = ""
    delivery_policy: MessagePolicy = "UNACKNOWLEDGED"
    refers_to: str = ""
    headers: dict[str, str] = {}


_ALIASES = dict.fromkeys(("conversation-id", "conversationId", "conversation"), "conversationID")
_KNOWN = frozenset(map(wire_name, MessageBody.__struct_fields__))


def from_wire(data: bytes, *, by_stranger: bool = False) -> PeerMessage:
    """`by_stranger`: the message comes from software not written for this hub; unknown fields are
    ignored. Raises `InvalidPayload`, `InvalidAttribute`."""
    try:
        tree = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidPayload(f"the message is not JSON: {error}") from None
    if isinstance(tree, dict):
        tree = {_ALIASES.get(name, name): value for name, value in tree.items()}
        ttl = tree.get("ttl")
        if isinstance(ttl, float) and ttl.is_integer():
            tree["ttl"] = int(ttl)  # to JSON, 5.0 and 5 are the same number
        if by_stranger:
            tree = {name: value for name, value in tree.items() if name in _KNOWN}
    try:
        return from_body(msgspec.convert(tree, MessageBody))
    except msgspec.ValidationError as error:
        raise InvalidAttribute(f"the message: {error}") from None


def from_body(body: MessageBody) -> PeerMessage:
    """Raises `InvalidAttribute`."""
    fields: dict[str, Any] = msgspec.structs.asdict(body)
    fields["content"] = _read_content(body.content)
    fields["ttl_ms"] = fields.pop("ttl")
    return PeerMessage(**fields)


def to_wire(message: PeerMessage) -> MessageBody:
    fields: dict[str, Any] = msgspec.structs.asdict(message)
    if isinstance(message.content, bytes):
        fields["content"] = WrittenContent(base64=message.content)
    fields["ttl"] = fields.pop("ttl_ms")
    return MessageBody(**fields)


def _read_content(content: str | WrittenContent) -> str | bytes:
    if isinstance(content, str):
        return content
    if isinstance(content.text, UnsetType) and not isinstance(content.base64, UnsetType):
        return content.base64
    if isinstance(content.base64, UnsetType) and not isinstance(content.text, UnsetType):
        return content.text
    raise InvalidAttribute("content needs exactly one of `text` and `base64`, or is text itself")
