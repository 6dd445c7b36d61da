"""Converts messages to events of Matrix rooms and back (client-server API v3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from hubbub.domain.communication.messages import PeerMessage
from hubbub.protocols.adapters.text_only import text_for

MESSAGE_PREFIX = "matrix:"
"""The prefix of ids of messages from Matrix; the rest is the event's id."""
HUBBUB = "org.hubbub.message"
"""The field of an event's content with the id of the hub's message."""
POSITION = "org.hubbub.position"
"""The account data in which the homeserver stores the hub's read position."""
MAX_CHARS = 30_000
_API = "/_matrix/client/v3"


class MatrixError(msgspec.Struct, frozen=True):
    """A homeserver's error response."""

    errcode: str = ""
    error: str = ""
    retry_after_ms: float = 0


class SyncedMessage(msgspec.Struct, frozen=True):
    """An event of a room, before the event to which it replies is known."""

    event: str
    room: str
    sender: str
    text: str
    answers: str
    """The id of the event to which it replies, or an empty text."""


class Sync(msgspec.Struct, frozen=True):
    next_batch: str
    messages: tuple[SyncedMessage, ...]
    invitations: tuple[str, ...]


def read_error(body: bytes) -> MatrixError:
    try:
        return msgspec.json.decode(body, type=MatrixError)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return MatrixError()


# -- requests -------------------------------------------------------------------------------------


def send_path(room: str, transaction: str) -> str:
    return f"{_API}/rooms/{_quoted(room)}/send/m.room.message/{_quoted(transaction)}"


def alias_path(alias: str) -> str:
    return f"{_API}/directory/room/{_quoted(alias)}"


def event_path(room: str, event: str) -> str:
    return f"{_API}/rooms/{_quoted(room)}/event/{_quoted(event)}"


def join_path(room: str) -> str:
    return f"{_API}/join/{_quoted(room)}"


def whoami_path() -> str:
    return f"{_API}/account/whoami"


def position_path(user: str) -> str:
    return f"{_API}/user/{_quoted(user)}/account_data/{POSITION}"


def sync_path(since: str, limit: int) -> str:
    wanted = {
        "presence": {"types": []},
        "account_data": {"types": []},
        "room": {
            "timeline": {"types": ["m.room.message"], "limit": limit},
            "state": {"types": []},
            "ephemeral": {"types": []},
            "account_data": {"types": []},
        },
    }
    query = {"timeout": "0", "filter": msgspec.json.encode(wanted).decode()}
    return f"{_API}/sync?{urlencode(query | ({'since': since} if since else {}))}"


def _quoted(text: str) -> str:
    return quote(text, safe="")


# -- content --------------------------------------------------------------------------------------


def event_content(message: PeerMessage) -> bytes:
    """The content of an `m.room.message`. Clients display `body`; the hub reads the other fields in
    replies. Raises `NotText`."""
    title, content = message.headers.get("subject", ""), text_for("Matrix", message)
    text = f"{title}\n\n{content}" if title else content
    about = {
        "id": message.id,
        "type": message.type,
        "subtype": message.subtype,
        "sender": message.sender,
        "receiver": message.receiver,
        "conversation_id": message.conversation_id,
        "refers_to": message.refers_to,
    }
    event: dict[str, Any] = {
        "msgtype": "m.text",
        "body": (text or f"{message.type}/{message.subtype}")[:MAX_CHARS],
        HUBBUB: {name: value for name, value in about.items() if value},
    }
    if message.refers_to.startswith(MESSAGE_PREFIX):
        answered = message.refers_to.removeprefix(MESSAGE_PREFIX)
        event["m.relates_to"] = {"m.in_reply_to": {"event_id": answered}}
    return msgspec.json.encode(event)


def read_sync(body: bytes, own: str) -> Sync:
    """Reads texts of other users than `own`; ignores edits, notices and bots. Raises `ValueError`
    if the body is not a sync response."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise ValueError("no JSON") from None
    batch = found.get("next_batch") if isinstance(found, dict) else None
    if not isinstance(batch, str):
        raise ValueError("no next_batch")
    rooms = _map(found.get("rooms"))
    messages = []
    for room, joined in _map(rooms.get("join")).items():
        events = _map(_map(joined).get("timeline")).get("events")
        for event in events if isinstance(events, list) else []:
            message = _synced(room, _map(event), own)
            if message is not None:
                messages.append(message)
    return Sync(batch, tuple(messages), tuple(_map(rooms.get("invite"))))


def _synced(room: str, event: Mapping[str, Any], own: str) -> SyncedMessage | None:
    content = _map(event.get("content"))
    relation = _map(content.get("m.relates_to"))
    texts = (event.get("event_id"), event.get("sender"), content.get("body"))
    identifier, sender, body = (each if isinstance(each, str) else "" for each in texts)
    is_text = event.get("type") == "m.room.message" and content.get("msgtype") == "m.text"
    edited = relation.get("rel_type") == "m.replace"
    if not is_text or edited or HUBBUB in content or sender == own or not identifier or not body:
        return None
    answers = _map(relation.get("m.in_reply_to")).get("event_id")
    answers = answers if isinstance(answers, str) else ""
    text = _without_fallback(body) if answers else body
    return SyncedMessage(identifier, room, sender, _encodable(text), answers)


def chat_message(
    synced: SyncedMessage, answered: Mapping[str, Any], type: str, receiver: str
) -> PeerMessage:
    """`answered`: the content of the event to which it replies; empty if there is none."""
    about = _map(answered.get(HUBBUB))
    identifier, conversation, peer = map(about.get, ("id", "conversation_id", "receiver"))
    refers_to = MESSAGE_PREFIX + synced.answers if synced.answers else ""
    return PeerMessage(
        id=MESSAGE_PREFIX + synced.event,
        type=type,
        subtype="REPLY" if synced.answers else "NEW",
        receiver=receiver,
        conversation_id=conversation if isinstance(conversation, str) else synced.room,
        content=synced.text[:MAX_CHARS],
        refers_to=identifier if isinstance(identifier, str) else refers_to,
        headers={
            "from": synced.sender,
            "room": synced.room,
            **({"peer": peer} if isinstance(peer, str) else {}),
        },
    )


def _without_fallback(body: str) -> str:
    """Removes the quotation that older clients put in front of a reply."""
    lines = body.split("\n")
    while lines and lines[0].startswith("> "):
        lines.pop(0)
    text = "\n".join(lines).strip()
    return text or body


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
