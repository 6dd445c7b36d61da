"""Updates: a Mercure publication as a message of the hub's log, and back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from hubbub.domain.errors import BadRequest, TooLarge
from hubbub.domain.messages import TEXT, Attributes, Message
from hubbub.domain.names import MERCURE_LOG
from hubbub.domain.requests import PublishItem

MAX_TOPICS: Final = 16
MAX_TOPIC_CHARS: Final = 2048
MAX_TOPICS_BYTES: Final = 7 * 1024
"""All topics of an update together; the headers of a message take 8 KiB."""
MAX_RETRY: Final = 10**9
EARLIEST: Final = "earliest"

_TOPICS: Final = "mercure.topics"
_PRIVATE: Final = "mercure.private"
_RETRY: Final = "mercure.retry"
_ID: Final = re.compile(r"urn:hubbub:([\w-]{1,64}):([0-9]{1,18})", re.ASCII)
_LINE_BREAK: Final = re.compile("[\r\n\x00]")


class Update(msgspec.Struct, frozen=True):
    """A publication. `topics` are the canonical topic and its alternates."""

    topics: tuple[str, ...]
    data: str = ""
    private: bool = False
    type: str = ""
    retry: int | None = None

    def item(self) -> PublishItem:
        """The update as a message of the log, which is always stored."""
        headers: dict[str, Any] = {_TOPICS: list(self.topics)}
        if self.private:
            headers[_PRIVATE] = True
        if self.retry is not None:
            headers[_RETRY] = self.retry
        return PublishItem(
            MERCURE_LOG,
            event=self.type,
            payload=self.data.encode(),
            content_type=TEXT,
            store=True,
            attributes=Attributes(headers=headers),
        )


def read_update(fields: Sequence[tuple[str, str]]) -> Update:
    """Reads the fields of a form; unknown ones are ignored. Raises `BadRequest`, `TooLarge`."""
    topics = [value for name, value in fields if name == "topic"]
    given = dict(reversed(fields))
    if not topics:
        raise BadRequest("an update needs at least one field `topic`")
    if len(topics) > MAX_TOPICS:
        raise BadRequest(f"an update has at most {MAX_TOPICS} topics, not {len(topics)}")
    for topic in topics:
        if not 0 < len(topic) <= MAX_TOPIC_CHARS:
            raise BadRequest(
                f"the topic {topic[:40]!r} has {len(topic)} characters; give 1 to {MAX_TOPIC_CHARS}"
            )
    size = sum(len(topic.encode()) for topic in topics)
    if size > MAX_TOPICS_BYTES:
        raise TooLarge(
            f"the topics of an update take {size} bytes; at most {MAX_TOPICS_BYTES} fit together"
        )
    if given.get("id", "").startswith("#"):
        raise BadRequest("`id` must not begin with '#'; leave it out, the hub gives ids itself")
    return Update(
        tuple(dict.fromkeys(topics)),
        given.get("data", ""),
        "private" in given,
        _checked_type(given.get("type", "")),
        _checked_retry(given.get("retry")),
    )


def _checked_type(text: str) -> str:
    if len(text) > 255 or _LINE_BREAK.search(text):
        raise BadRequest(f"`type` is {text[:40]!r}; give one line of at most 255 characters")
    return text


def _checked_retry(text: str | None) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 10 or int(text) > MAX_RETRY:
        raise BadRequest(f"`retry` is {text[:20]!r}; give milliseconds in digits")
    return int(text)


def topics_of(message: Message) -> Sequence[str]:
    headers = _headers(message)
    found = headers.get(_TOPICS)
    return found if isinstance(found, list) else ()


def is_private(message: Message) -> bool:
    """A message that no update became is private: nothing says who may read it."""
    headers = _headers(message)
    return bool(headers.get(_PRIVATE)) or _TOPICS not in headers


def retry_of(message: Message) -> int | None:
    found = _headers(message).get(_RETRY)
    return found if isinstance(found, int) else None


def _headers(message: Message) -> dict[str, Any]:
    attributes = message.attributes
    return (attributes.headers if attributes is not None else None) or {}


# -- ids ------------------------------------------------------------------------------------------


def update_id(epoch: str, serial: int) -> str:
    """The id of the update at a position of the log; `earliest` in front of the first one."""
    return f"urn:hubbub:{epoch}:{serial}" if serial else EARLIEST


def read_id(text: str) -> tuple[str | None, int]:
    """The position behind which a stream goes on: epoch and serial. An id of another hub means
    everything that is kept, as `earliest` does."""
    found = _ID.fullmatch(text)
    return (found[1], int(found[2])) if found else (None, 0)
