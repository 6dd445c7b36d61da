"""Converts an entry of a feed to a message."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from hubbub.domain.communication.messages import PeerMessage
from hubbub.protocols.adapters.html_text import html_text

MAX_TEXT_CHARS = 100_000
_MAX_HEADER_CHARS = 1000
_ENTITY = "<!ENTITY"
DECLARATIONS = tuple(_ENTITY.encode(name) for name in ("ascii", "utf-16-le", "utf-16-be"))
"""Markers of entity declarations, in which feeds are rejected: no feed needs entities, and nested
ones can exhaust memory."""


def declares_entities(body: bytes) -> bool:
    return any(each in body for each in DECLARATIONS)


def entry_message(
    url: str, feed: Mapping[str, Any], entry: Mapping[str, Any], type: str, receiver: str
) -> PeerMessage:
    """`feed` and `entry` as feedparser returns them. The id is derived from the feed's URL and the
    entry's id, or its link and title."""
    title, link = _line(entry.get("title")), _line(entry.get("link"))
    identity = _line(entry.get("id")) or f"{link}\n{title}"
    summary = _summary(entry)
    headers = {
        "title": title,
        "link": link,
        "published": _line(entry.get("published") or entry.get("updated")),
        "author": _line(entry.get("author")),
        "feed": _line(feed.get("title")),
    }
    return PeerMessage(
        id="feed:" + hashlib.sha256(f"{url}\n{identity}".encode()).hexdigest()[:32],
        type=type,
        subtype="ENTRY",
        receiver=receiver,
        conversation_id=link[:255] or title[:255],
        language=_line(feed.get("language"))[:35],
        content="\n\n".join(part for part in (title, summary, link) if part),
        headers={name: value for name, value in headers.items() if value},
    )


def _summary(entry: Mapping[str, Any]) -> str:
    page = entry.get("summary")
    if not isinstance(page, str):
        contents = entry.get("content")
        first = contents[0] if isinstance(contents, list) and contents else {}
        page = first.get("value") if isinstance(first, Mapping) else None
    text = html_text(page[:MAX_TEXT_CHARS]) if isinstance(page, str) else ""
    return text.encode("utf-8", "replace").decode()


def _line(value: object) -> str:
    text = html_text(value[: 2 * _MAX_HEADER_CHARS]) if isinstance(value, str) else ""
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(printable.split()).encode("utf-8", "replace").decode()[:_MAX_HEADER_CHARS]
