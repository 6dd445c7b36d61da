"""Messages to peers as JSON, at every door and for every adapter that speaks JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from hubbub.domain.communication.messages import MessagePolicy, PeerMessage
from hubbub.domain.errors import InvalidAttribute, InvalidPayload
from hubbub.domain.fields import wire_name


class MessageBody(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    rename=wire_name,
):
    """A message. `type` and `subtype` are required; the hub assigns an id where there is none."""

    id: str = ""
    type: str = ""
    subtype: str = ""
    sender: str = ""
    receiver: str = ""
    conversation_id: str = ""
    language: str = ""
    content: str = ""
    ttl: int = 0
    """Milliseconds; 0: no limit."""
    security_token: str = ""
    delivery_policy: MessagePolicy = "UNACKNOWLEDGED"
    refers_to: str = ""
    headers: dict[str, str] = {}


_ALIASES = dict.fromkeys(("conversation-id", "conversationId", "conversation"), "conversationID")
_KNOWN = frozenset(map(wire_name, MessageBody.__struct_fields__))


def from_wire(data: bytes, *, by_stranger: bool = False) -> PeerMessage:
    """`by_stranger`: from a program that was not written for this hub; fields that mean nothing
    here are passed over. Raises `InvalidPayload`, `InvalidAttribute`."""
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
    fields: dict[str, Any] = msgspec.structs.asdict(body)
    fields["ttl_ms"] = fields.pop("ttl")
    return PeerMessage(**fields)


def to_wire(message: PeerMessage) -> MessageBody:
    fields: dict[str, Any] = msgspec.structs.asdict(message)
    fields["ttl"] = fields.pop("ttl_ms")
    return MessageBody(**fields)
