"""Ordered requests between nodes.

Nodes of the version before know no such requests: a change of a document is a message to them whose
attributes have `change`, and a message of the log of communication has its step in itself. Requests
still travel in that form, so that nodes of both versions understand each other.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hubbub.domain.asking import OwnerRequest, Sent
from hubbub.domain.communication.requests import LogMessage
from hubbub.domain.communication.steps import CommunicationStep
from hubbub.domain.documents.changes import ChangeOptions
from hubbub.domain.documents.requests import ApplyChange, FindChange
from hubbub.domain.messages import Attributes, Message
from hubbub.domain.names import COMMUNICATION_LOG, is_document
from hubbub.domain.topics import FindPut


class _SentAttributes(Attributes, frozen=True, omit_defaults=True):
    change: ChangeOptions | None = None


class SentMessage(Message):
    """A message as it travels when a request is in it."""

    attributes: _SentAttributes | None = None
    communication: CommunicationStep | None = None


def sent_form(sent: Sent) -> Message:
    """The message that other nodes are sent."""
    if isinstance(sent, ApplyChange):
        return _with_change(sent.message, sent.options)
    if isinstance(sent, LogMessage):
        return SentMessage(**_fields(sent.message), communication=sent.step)
    assert isinstance(sent, Message), f"{type(sent).__name__} has no form between nodes"
    return sent


def asked_form(request: OwnerRequest[Any]) -> OwnerRequest[Any]:
    """The request that other nodes are asked."""
    if isinstance(request, FindChange):
        return FindPut(_with_change(request.message, request.options))
    return request


def may_be_request(message: Message) -> bool:
    """Whether a message that came from another node may have a request in it, so that it must be
    read as a `SentMessage`."""
    if message.channel == COMMUNICATION_LOG:
        return True
    return message.attributes is not None and is_document(message.channel)


def received(message: SentMessage) -> Sent:
    """Converts a message from another node to the message or request that was sent."""
    fields = _fields(message)
    step, attributes = fields.pop("communication"), message.attributes
    change = attributes.change if attributes is not None else None
    if attributes is not None:
        rest = _fields(attributes)
        del rest["change"]
        plain_attributes = Attributes(**rest)
        fields["attributes"] = plain_attributes if plain_attributes != Attributes() else None
    plain = Message(**fields)
    if change is not None:
        return ApplyChange(plain, change)
    return plain if step is None else LogMessage(plain, step)


def _with_change(message: Message, options: ChangeOptions) -> SentMessage:
    attributes = _SentAttributes(**_fields(message.attributes or Attributes()), change=options)
    return SentMessage(**(_fields(message) | {"attributes": attributes}))


def _fields(struct: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}
