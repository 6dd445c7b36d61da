"""Messages that the hub itself creates: CONTROL, AUTH and MESSAGEINFO."""

from __future__ import annotations

import msgspec

from hubbub.domain.communication.messages import (
    ACK,
    AUTH,
    AUTHENTICATION_MANAGER,
    COMERROR,
    COMPONENT,
    CONTROL,
    DELIVERYERROR,
    ERROR,
    MAX_TEXT,
    MESSAGE_INFO_SERVICE,
    MESSAGEINFO,
    REPLY,
    TIMEOUT,
    PeerMessage,
    kind_of,
)
from hubbub.domain.communication.policies import DeliveryVerdict

VERDICT_SUFFIX = ".verdict"


def report_on(message: PeerMessage, receiver: str, verdict: DeliveryVerdict) -> PeerMessage | None:
    """Returns the control message that reports a verdict to the sender; None if nobody is to be
    notified. Its id is derived from the message and its receiver, so a report exists only once."""
    if message.type in (CONTROL, AUTH) or (message.type, message.subtype) == (MESSAGEINFO, REPLY):
        return None  # reports are never reported on
    if verdict.result == "met":
        if message.delivery_policy != "ACKNOWLEDGED":
            return None
        subtype = ACK
    elif verdict.result == "timed_out":
        subtype = TIMEOUT
    elif verdict.tried and kind_of(receiver) == "peer":
        subtype = COMERROR
    else:
        subtype = DELIVERYERROR
    return PeerMessage(
        id=f"{message.id}{VERDICT_SUFFIX}",
        type=CONTROL,
        subtype=subtype,
        sender=receiver,
        receiver=message.sender,
        conversation_id=message.conversation_id,
        content=verdict.reason,
        refers_to=message.id,
    )


def fault(id: str, adapter: str, text: str, refers_to: object = "") -> PeerMessage:
    """Reports a fault that is not about a message in transit. The report has no receiver: routing
    rules and callbacks deliver it. `refers_to` is any value that was given as an id."""
    return PeerMessage(
        id=id,
        type=CONTROL,
        subtype=ERROR,
        sender=f"{COMPONENT}{adapter}",
        content=text,
        refers_to="".join(each for each in str(refers_to)[:MAX_TEXT] if each.isprintable()),
    )


def auth_message(
    request: PeerMessage, subtype: str, content: str = "", suffix: str = ".auth"
) -> PeerMessage:
    """The authentication manager's response to a message of a peer."""
    return PeerMessage(
        id=f"{request.id}{suffix}",
        type=AUTH,
        subtype=subtype,
        sender=AUTHENTICATION_MANAGER,
        receiver=request.sender,
        conversation_id=request.conversation_id,
        content=content,
        refers_to=request.id,
    )


def info_reply(request: PeerMessage, content: str) -> PeerMessage:
    return PeerMessage(
        id=f"{request.id}.info",
        type=MESSAGEINFO,
        subtype=REPLY,
        sender=MESSAGE_INFO_SERVICE,
        receiver=request.sender,
        conversation_id=request.conversation_id,
        content=content,
        refers_to=request.id,
    )


def copy_to(message: PeerMessage, receiver: str) -> PeerMessage:
    """Returns the copy for one receiver: same id, the receiver's own name, without the sender's
    token."""
    return msgspec.structs.replace(message, receiver=receiver, security_token="")


def redacted(message: PeerMessage) -> PeerMessage:
    """Returns the message as the log stores it: without tokens and passwords."""
    content = "(hidden)" if message.type == AUTH and message.content else message.content
    if not message.security_token and content is message.content:
        return message
    return msgspec.structs.replace(message, security_token="", content=content)
