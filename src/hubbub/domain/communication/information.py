"""Message info: the meaning of each message type, and its valid replies."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from hubbub.domain.errors import InvalidAttribute
from hubbub.domain.setting import Setting


class MessageKind(Setting, frozen=True):
    """A message type and its subtype."""

    type: Annotated[str, Meta(min_length=1, max_length=100)]
    subtype: Annotated[str, Meta(min_length=1, max_length=100)]


_Kinds = Annotated[tuple[MessageKind, ...], Meta(max_length=100)]


class MessageInfo(Setting, frozen=True):
    """Describes how to read messages of one type and subtype, and how to reply to them."""

    type: Annotated[str, Meta(min_length=1, max_length=100)]
    subtype: Annotated[str, Meta(min_length=1, max_length=100)]
    purpose: Annotated[str, Meta(max_length=4096)] = ""
    valid_answer: Annotated[str, Meta(max_length=4096)] = ""
    """A description of a valid reply, in words."""
    valid_answer_types: _Kinds = ()
    """The message types that a reply may have."""
    related_messages: _Kinds = ()


class InfoQuestion(msgspec.Struct, frozen=True):
    """The content of MESSAGEINFO/REQUEST: a type and subtype, or the id of a message."""

    type: str = ""
    subtype: str = ""
    id: str = ""


def read_question(content: str | bytes) -> InfoQuestion:
    """Raises `InvalidAttribute`."""
    try:
        question = msgspec.json.decode(content, type=InfoQuestion)
    except (msgspec.MsgspecError, UnicodeError):
        question = InfoQuestion()
    if not question.id and not (question.type and question.subtype):
        raise InvalidAttribute(
            'content of MESSAGEINFO/REQUEST must be {"type": …, "subtype": …} or {"id": …}'
        )
    return question
