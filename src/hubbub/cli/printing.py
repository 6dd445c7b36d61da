"""Messages and events as lines of text or JSON."""

from __future__ import annotations

import base64
import re

import click
import msgspec

from hubbub.client import (
    Gap,
    Joined,
    Left,
    Member,
    Message,
    NotificationInfo,
    NotificationNew,
    NotificationRead,
    Occupancy,
    Presence,
    TopicMessage,
)
from hubbub.client.envelope import fields_of
from hubbub.client.events import DocumentInfo, DocumentUpdated, Told
from hubbub.client.messages import decode_data
from hubbub.domain.fields import wire_name
from hubbub.domain.messages import is_json, is_text

_FAINT, _CHANNEL, _PERSON = "bright_black", "cyan", "green"
# What a terminal could take for a command, but for tabs.
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f]")


def message_line(message: Message, as_json: bool) -> str:
    if as_json:
        return to_json(message_object(message))
    position = f"#{message.serial}" if message.serial else "-"
    parts = [
        (f"{message.time.astimezone():%H:%M:%S}", _FAINT),
        (message.channel, _CHANNEL),
        (position, _FAINT),
        (message.publisher or "", _PERSON),
        (message.event, _PERSON),
        ("(retained)" if message.retained else "", _FAINT),
        (_delivery(message), _FAINT),
        (_envelope(message), _FAINT),
        (_readable(message), None),
    ]
    return "  ".join(_styled(text, style) for text, style in parts if text)


def _styled(text: str, style: str | None) -> str:
    shown = escape_control(text)
    return click.style(shown, fg=style) if style is not None else shown


def _delivery(message: Message) -> str:
    if isinstance(message, TopicMessage) and message.redelivered:
        return f"(delivery {message.deliveries})" if message.deliveries > 1 else "(redelivered)"
    return ""


def _envelope(message: Message) -> str:
    said = [
        f"{name}={value if isinstance(value, str) else to_json(value)}"
        for name, value in _fields(message).items()
    ]
    return f"[{' '.join(said)}]" if said else ""


def _fields(message: Message) -> dict[str, object]:
    """The rarer envelope fields that are set, by their wire names."""
    return {wire_name(name): value for name, value in fields_of(message.attributes).items()}


def _readable(message: Message) -> str:
    if is_json(message.content_type) or is_text(message.content_type):
        return message.payload.decode()
    return f"{len(message.payload)} bytes of {message.content_type}"


def message_object(message: Message) -> dict[str, object]:
    """The message as in the JSON protocol: the payload is keyed by its encoding."""
    payload: dict[str, object]
    if is_json(message.content_type):
        payload = {"json": msgspec.Raw(message.payload)}
    elif is_text(message.content_type):
        payload = {"text": message.payload.decode()}
    else:
        payload = {"base64": base64.b64encode(message.payload).decode()}
    shown: dict[str, object] = {
        "channel": message.channel,
        "event": message.event,
        "payload": payload,
        "contentType": message.content_type,
        "msgID": message.id,
        "ts": message.published_at,
    }
    if message.serial:
        shown["channelSerial"] = str(message.serial)
    if message.publisher is not None:
        shown["publisher"] = message.publisher
    if message.retained:
        shown["retained"] = True
    shown |= _fields(message)
    if isinstance(message, TopicMessage):
        shown["deliveries"] = message.deliveries
        shown["redelivered"] = message.redelivered
    return shown


NOTIFICATION_EVENTS = (NotificationNew, NotificationRead, NotificationInfo)


def describe_event(event: Gap | Told, as_json: bool) -> str:
    if as_json:
        shown = msgspec.to_builtins(event)
        if isinstance(event, DocumentUpdated):
            shown["ops"] = msgspec.json.decode(event.ops.text)
        return to_json({"event": type(event).__name__, **shown})
    if isinstance(event, Occupancy):
        return f"{event.channel}: {event.count} here"
    if isinstance(event, Gap):
        return f"{event.channel}: messages may be missing here: {event.reason}"
    if isinstance(event, NotificationInfo):
        return f"{event.channel}: {event.state.unread} of {event.state.total} unread"
    if isinstance(event, NotificationRead):
        which = ", ".join(event.ids) or f"up to {event.up_to}"
        return escape_control(f"{event.channel}: read by {event.read_by or 'somebody'}: {which}")
    if isinstance(event, NotificationNew):
        new = event.notification
        text = repr(decode_data(new.payload, new.content_type))
        return escape_control(f"{event.channel}: {new.event or 'notification'} {new.id} {text}")
    if isinstance(event, DocumentInfo):
        return f"{event.channel}: the document is at version {event.version}"
    if isinstance(event, DocumentUpdated):
        text = event.ops.text.decode()
        return escape_control(f"{event.channel}: version {event.version}: {text}")
    names = ", ".join(map(_name, event.members))
    verb = {Presence: "here are", Joined: "joined:", Left: "left:"}[type(event)]
    return escape_control(f"{event.channel}: {verb} {names or 'nobody'}")


def _name(member: Member) -> str:
    """The member's user and its presence data."""
    name = member.user_id or member.session_id
    return name if member.data is None else f"{name} {msgspec.json.encode(member.data).decode()}"


def escape_control(text: str) -> str:
    """Escapes control characters, so that text cannot control the terminal."""
    return _CONTROL.sub(_escape, text)


def to_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _escape(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode()
