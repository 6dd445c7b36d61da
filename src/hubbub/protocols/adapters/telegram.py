"""Converts messages to texts of a Telegram bot, and updates to messages (Bot API)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from hubbub.domain.communication.messages import PeerMessage
from hubbub.protocols.adapters.text_only import text_for

MESSAGE_PREFIX = "telegram:"
"""The prefix of ids of messages from Telegram, followed by chat and message number."""
MAX_CHARS = 4096
_MARK = re.compile(r"\[#([^\s\[\]]{1,200})\]\s*$")
_REFERENCE = re.compile(r"telegram:(-?\d{1,20}):(\d{1,20})")


class ApiError(msgspec.Struct, frozen=True):
    description: str = ""
    retry_after_seconds: float = 0.0


class TelegramUpdate(msgspec.Struct, frozen=True):
    """`message` is None if the update is not a text from a person."""

    number: int
    message: PeerMessage | None


def text_of(message: PeerMessage) -> str:
    """The text with the message's id at the end: a reply quotes it, so that the hub can resolve the
    reference. Raises `NotText`."""
    title, content = message.headers.get("subject", ""), text_for("Telegram", message)
    text = f"{title}\n\n{content}" if title else content
    text = text or f"{message.type}/{message.subtype}"
    mark = f"\n\n[#{message.id}]"
    marked = _MARK.search(mark) is not None
    end = mark if marked else ""
    most = MAX_CHARS - len(end.encode("utf-16-le")) // 2
    return _cut(text, most) + end


def send_body(message: PeerMessage, chat: str) -> bytes:
    """Raises `NotText`."""
    said: dict[str, Any] = {"chat_id": chat, "text": text_of(message)}
    answered = _REFERENCE.fullmatch(message.refers_to)
    if answered and answered.group(1) == chat:
        said["reply_parameters"] = {
            "message_id": int(answered.group(2)),
            "allow_sending_without_reply": True,
        }
    return msgspec.json.encode(said)


def read_error(answer: Mapping[str, Any]) -> ApiError:
    text = answer.get("description")
    parameters = answer.get("parameters")
    seconds = parameters.get("retry_after") if isinstance(parameters, dict) else None
    return ApiError(
        text if isinstance(text, str) else "",
        min(float(seconds), 3600.0) if isinstance(seconds, int | float) and seconds > 0 else 0.0,
    )


def read_updates(answer: Mapping[str, Any], type: str, receiver: str) -> list[TelegramUpdate]:
    """Raises `ValueError` if the response is not a list of updates."""
    found = answer.get("result")
    if answer.get("ok") is not True or not isinstance(found, list):
        raise ValueError("no list of updates")
    return [_update(each, type, receiver) for each in found if _number(each) is not None]


def _number(update: object) -> int | None:
    number = update.get("update_id") if isinstance(update, dict) else None
    return number if isinstance(number, int) else None


def _update(update: dict[str, Any], type: str, receiver: str) -> TelegramUpdate:
    number, said = _number(update) or 0, _map(update.get("message"))
    chat, sender = _map(said.get("chat")).get("id"), _map(said.get("from"))
    text, identifier = said.get("text"), said.get("message_id")
    usable = isinstance(chat, int) and isinstance(identifier, int) and isinstance(text, str)
    if not usable or not text or sender.get("is_bot"):
        return TelegramUpdate(number, None)
    answered = _map(said.get("reply_to_message"))
    language = sender.get("language_code")
    return TelegramUpdate(
        number,
        PeerMessage(
            id=f"{MESSAGE_PREFIX}{chat}:{identifier}",
            type=type,
            subtype="REPLY" if answered else "NEW",
            receiver=receiver,
            conversation_id=f"{MESSAGE_PREFIX}{chat}",
            language=language[:35] if isinstance(language, str) else "",
            content=str(text).encode("utf-8", "replace").decode(),
            refers_to=_referred(chat, answered),
            headers={"from": str(chat)},
        ),
    )


def _referred(chat: object, answered: Mapping[str, Any]) -> str:
    text, identifier = answered.get("text"), answered.get("message_id")
    mark = _MARK.search(text) if isinstance(text, str) else None
    if mark:
        return mark.group(1)
    return f"{MESSAGE_PREFIX}{chat}:{identifier}" if isinstance(identifier, int) else ""


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _cut(text: str, units: int) -> str:
    """Truncates to a length in UTF-16 units, as Telegram counts."""
    encoded = text.encode("utf-16-le", "replace")
    if len(encoded) <= 2 * units:
        return encoded.decode("utf-16-le", "replace")
    return encoded[: 2 * (units - 1)].decode("utf-16-le", "ignore") + "…"
