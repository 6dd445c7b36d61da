"""Search: phrases in the stored messages of the channels that one may read.

Words are made here, of messages and of questions alike, so that every store finds the same
messages: a store indexes the words of `words_of_message` and never reads the text itself."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Annotated, Any, Final

import msgspec

from hubbub.domain.asking import ChannelRequest
from hubbub.domain.errors import BadRequest, HubbubError
from hubbub.domain.messages import Message, is_json, is_text
from hubbub.domain.notices import Notice
from hubbub.domain.requests import Request
from hubbub.domain.rules import Rules, is_collection
from hubbub.domain.wire import ALWAYS

INDEXED_BYTES: Final = 16 * 1024
"""Only the beginning of a longer payload is indexed."""
MAX_MESSAGE_WORDS: Final = 2000
MAX_WORD: Final = 64
"""Longer words are cut."""
MAX_QUERY: Final = 256
"""The most characters of a query."""
MAX_QUERY_WORDS: Final = 16
DEFAULT_HITS: Final = 20
MAX_HITS: Final = 100
"""The most hits in one page."""

# A script without spaces between words is indexed by character, so that its words are phrases.
_UNSPACED = (
    "\u0e00-\u0eff\u1780-\u17ff\u2e80-\u2fdf\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_MARKS = re.compile("[\u0300-\u036f]+")
# Each quote begins a match that takes everything up to the next one, or up to the end: the time is
# linear in any payload.
_JSON_PARTS = re.compile(
    r'"(?P<text>(?:[^"\\]+|\\.)*+)(?:"(?P<key>\s*:)?)?|(?P<number>-?\d[\d.eE+-]*)', re.DOTALL
)

Phrases = tuple[tuple[str, ...], ...]
"""All of these must occur in a message, each as consecutive words."""
RANK: Final = "rank"
TIME: Final = "time"


class Search(Request, frozen=True):
    """Finds the messages with all words of `query`; words in quotation marks must follow each
    other. `channel` is a name or a pattern; without it, all channels that the asker may read are
    searched. `since` and `until` are times of publication in milliseconds since 1970, both
    inclusive."""

    query: str
    req_id: int = 0
    channel: str | None = None
    since: int | None = None
    until: int | None = None
    filter: dict[str, Any] | None = None
    """As in a request for history."""
    order: str = ""
    """`rank`, the default: the best first, ranked in blocks of some hundred, the newest block
    first; or `time`: the newest first."""
    limit: int = 0
    """0: `DEFAULT_HITS`."""
    cursor: str | None = None
    """Continues the page that returned it; all other fields must be the same."""


class SearchHit(msgspec.Struct, frozen=True):
    """`score` is greater for better hits, between 0 and 1."""

    message: Message
    score: float


class SearchPage(Notice, frozen=True):
    """Hits in the requested order. `behind` channels are not completely indexed yet, so that older
    messages may be missing."""

    hits: Annotated[tuple[SearchHit, ...], ALWAYS] = ()
    cursor: str | None = None
    """Present if there may be further hits."""
    behind: Annotated[int, ALWAYS] = 0
    req_id: int = 0
    error: HubbubError | None = None


class CompleteIndex(ChannelRequest[bool], frozen=True, tag="complete_index"):
    """Completes the index of a channel. Returns whether it is complete within a short time; the
    owner goes on in any case."""


def is_searched(channel: str, rules: Rules) -> bool:
    """Whether the stored messages of a channel with these rules are indexed. The hub's own
    collections are not, whatever the default rules say."""
    return rules.search and rules.store and not is_collection(channel)


def words_of(text: str) -> list[str]:
    """The words of a text, without case, accents and punctuation."""
    if not text.isascii():
        text = _MARKS.sub("", unicodedata.normalize("NFKD", text))
        text = unicodedata.normalize("NFKD", text.casefold())
    else:
        text = text.lower()
    return [word[:MAX_WORD] for word in _WORD.findall(text)]


def words_of_message(payload: bytes, content_type: str) -> str:
    """The indexed words of a message, separated by spaces: those of a text, or of the texts and
    numbers in JSON. Empty for binary payloads."""
    beginning = payload[:INDEXED_BYTES]
    if is_json(content_type):
        text = _text_of_json(beginning.decode("utf-8", "ignore"))
    elif is_text(content_type) or content_type.endswith(("/xml", "+xml")):
        text = beginning.decode("utf-8", "ignore")
    else:
        return ""
    return " ".join(words_of(text)[:MAX_MESSAGE_WORDS])


def _text_of_json(text: str) -> str:
    """Values, not the names of members. The JSON may end anywhere."""
    parts: list[str] = []
    for part in _JSON_PARTS.finditer(text):
        found, number = part["text"], part["number"]
        if number is not None:
            parts.append(number)
        elif found and part["key"] is None:
            parts.append(_unescaped(found) if "\\" in found else found)
    # A word never spans two texts; a phrase may.
    return "\n".join(parts)


def _unescaped(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:  # cut off within an escape
        return text.replace("\\", " ")


def phrases_of(query: str) -> Phrases:
    """Reads a query: words, and phrases in quotation marks. No other character has a meaning.
    Raises `BadRequest`."""
    if len(query) > MAX_QUERY:
        raise BadRequest(f"the query has {len(query)} characters; at most {MAX_QUERY} are searched")
    parts = query.split('"')
    quoted, loose = parts[1::2], [word for part in parts[::2] for word in part.split()]
    phrases = [tuple(words) for words in map(words_of, (*quoted, *loose)) if words]
    if not phrases:
        raise BadRequest(f"the query {query[:40]!r} has no word; give at least one")
    if sum(map(len, phrases)) > MAX_QUERY_WORDS:
        raise BadRequest(f"the query has more than {MAX_QUERY_WORDS} words; give fewer")
    return tuple(dict.fromkeys(phrases))


def score(words: str, phrases: Phrases) -> float:
    """How well a message with these words fits: a phrase counts more the more often it occurs, with
    diminishing returns, and more in a short message."""
    text = f" {words.replace(' ', '  ')} "
    length = 0.25 + 0.75 * (words.count(" ") + 1) / 50
    total = 0.0
    for phrase in phrases:
        count = text.count(f" {'  '.join(phrase)} ")
        total += count / (count + 1.2 * length)
    return round(total / len(phrases), 4)


class SearchPlace(msgspec.Struct, frozen=True, order=True, array_like=True):
    """Where a search goes on: behind the hit of this channel and serial, which was published at
    `at`, and `skipped` more of the ranked hits that follow it."""

    at: int
    channel: str
    serial: int
    skipped: int = 0
