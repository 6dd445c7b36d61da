"""Converts contents of messages to peers to bytes and back; UTF-8 bytes become text."""

from __future__ import annotations

from typing import Final

from hubbub.domain.communication.messages import Content
from hubbub.domain.messages import BINARY, JSON, TEXT, Message, is_json, is_text

CONTENT_TYPE: Final = "contentType"
"""The header with the media type of a binary content."""
FILE: Final = "file"
"""The header with the name of the file that a content was read from."""


def text_or_bytes(data: bytes) -> Content:
    """Returns text if encoding it in UTF-8 gives the same bytes again; else the bytes."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def content_of(message: Message) -> Content:
    """Returns the payload of a channel's message as the content of a message to a peer."""
    if is_json(message.content_type) or is_text(message.content_type):
        return text_or_bytes(message.payload)
    return message.payload


def media_type_header(message: Message) -> dict[str, str]:
    """The headers that describe the content of a copy: the media type of a binary content."""
    is_plain = message.content_type in (JSON, BINARY) or is_text(message.content_type)
    return {} if is_plain else {CONTENT_TYPE: message.content_type}


def payload_of(content: Content) -> tuple[bytes, str]:
    """Returns the payload and content type of a channel's message with this content."""
    return (content, BINARY) if isinstance(content, bytes) else (content.encode(), TEXT)
