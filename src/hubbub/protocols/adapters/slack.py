"""Bodies for Slack-compatible incoming webhooks, and Slack's signed events."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

import msgspec

from hubbub.domain.communication.messages import PeerMessage
from hubbub.protocols.adapters.text_only import text_for

MESSAGE_PREFIX = "slack:"
MAX_CHARS = 30_000
MAX_AGE_SECONDS = 300
"""Older signatures are rejected, to prevent replays."""


class BadSignature(ValueError):
    """The signature is missing, outdated or invalid."""


class SlackEvent(msgspec.Struct, frozen=True):
    """`challenge` is the response when Slack verifies the URL; `message` is None if the event is
    not a text from a person."""

    message: PeerMessage | None = None
    challenge: str | None = None


def webhook_body(message: PeerMessage) -> bytes:
    """Raises `NotText`."""
    title, content = message.headers.get("subject", ""), _escaped(text_for("Slack", message))
    text = f"*{_escaped(title)}*\n{content}" if title else content
    text = text or f"{message.type}/{message.subtype}"
    return msgspec.json.encode({"text": text[:MAX_CHARS]})


def _escaped(text: str) -> str:
    """Escapes the text, so that it cannot mention anyone (`<!channel>`)."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def check_signature(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> None:
    """`headers` in lower case; `now` in seconds since 1970. Raises `BadSignature`."""
    timestamp = headers.get("x-slack-request-timestamp", "")
    if not timestamp.isdecimal() or len(timestamp) > 12:
        raise BadSignature("the header X-Slack-Request-Timestamp is missing")
    if abs(now - int(timestamp)) > MAX_AGE_SECONDS:
        raise BadSignature("the request is older than five minutes")
    signed = b"v0:%b:%b" % (timestamp.encode(), body)
    wanted = "v0=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    given = headers.get("x-slack-signature", "")
    if not hmac.compare_digest(wanted.encode(), given.encode("utf-8", "replace")):
        raise BadSignature("the header X-Slack-Signature is not the signature of the request")


def read_event(body: bytes, type: str, receiver: str) -> SlackEvent:
    """Raises `ValueError` if the body is not an event."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise ValueError("the body is no JSON") from None
    if not isinstance(found, dict):
        raise ValueError("the body is no object")
    if found.get("type") == "url_verification":
        challenge = found.get("challenge")
        return SlackEvent(challenge=challenge if isinstance(challenge, str) else "")
    event = found.get("event")
    if found.get("type") != "event_callback" or not isinstance(event, dict):
        raise ValueError("the body is no event_callback")
    return SlackEvent(_message(event, type, receiver))


def _message(event: dict[str, Any], type: str, receiver: str) -> PeerMessage | None:
    """Converts a text from a person; a thread becomes a conversation that replies to its first
    message."""
    names = ("channel", "user", "text", "ts")
    channel, user, text, ts = (_text(event.get(name)) for name in names)
    by_person = not event.get("bot_id") and not event.get("subtype")
    if event.get("type") != "message" or not by_person or not (channel and user and text and ts):
        return None
    thread = _text(event.get("thread_ts"))
    answers = bool(thread) and thread != ts
    return PeerMessage(
        id=f"{MESSAGE_PREFIX}{channel}:{ts}",
        type=type,
        subtype="REPLY" if answers else "NEW",
        receiver=receiver,
        conversation_id=f"{MESSAGE_PREFIX}{channel}:{thread or ts}",
        content=text[:MAX_CHARS],
        refers_to=f"{MESSAGE_PREFIX}{channel}:{thread}" if answers else "",
        headers={"from": user, "channel": channel},
    )


def _text(value: object) -> str:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""
