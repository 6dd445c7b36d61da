"""Words in the text of messages, by the hour, where payloads are in the journal."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.gold.columns import TEXT, WHOLE, schema
from hubbub.pipeline.gold.stop_words import STOP_WORDS
from hubbub.pipeline.grouping import Groups
from hubbub.pipeline.tables import arrow_table

SCHEMA = schema(hub=TEXT, term=TEXT, messages=WHOLE, hour=TEXT)

READ_CHARACTERS = 1000
"""Of each message; what it is about is said by then."""
MIN_CHARACTERS, MAX_CHARACTERS = 3, 40
MIN_MESSAGES = 2
"""A word of a single message in an hour is no trend, and most words are such."""

_AT_ONCE = 16_384
"""Messages whose words are counted at once."""

_NO_LETTER = r"[^\p{L}\p{N}]+"
_JSON_NAMES_AND_ESCAPES = r'"[^"\\]*"\s*:|\\(?:u[0-9a-fA-F]{4}|.)'


def compute(sources: Mapping[str, pa.Table], _hour: str) -> pa.Table:
    """Counts messages, not repetitions within one."""
    messages = sources["messages"]
    messages = messages.filter(pc.is_valid(messages["payload"])).combine_chunks()
    parts = [
        _counted(messages.slice(start, _AT_ONCE))
        for start in range(0, max(len(messages), 1), _AT_ONCE)
    ]
    every = pa.concat_tables(parts)
    found = Groups(every, ("hub", "term")).added({"messages": (every["messages"], "sum")})
    found = found.filter(pc.greater_equal(found["messages"], MIN_MESSAGES))
    # Looked at once for each word, and not for each time that it was said.
    common = pc.is_in(found["term"], pa.array(STOP_WORDS))
    telling = pc.match_substring_regex(found["term"], r"\p{L}")
    return found.filter(pc.and_(pc.invert(common), telling))


def _counted(messages: pa.Table) -> pa.Table:
    """How many of these messages have each word, by hub."""
    hubs = messages["hub"].combine_chunks().dictionary_encode()
    words = pc.split_pattern_regex(_texts(messages), _NO_LETTER)
    said = words.flatten()
    message = pc.list_parent_indices(words).to_numpy()
    length = pc.utf8_length(said)
    long_enough = pc.and_(
        pc.greater_equal(length, MIN_CHARACTERS), pc.less_equal(length, MAX_CHARACTERS)
    )
    codes = said.filter(long_enough).dictionary_encode()
    message = message[long_enough.to_numpy(zero_copy_only=False)]
    terms = max(len(codes.dictionary), 1)
    once = np.unique(message * terms + codes.indices.to_numpy())
    hub = hubs.indices.to_numpy()[once // terms].astype(np.int64)
    counts = np.bincount(hub * terms + once % terms, minlength=0)
    some = np.flatnonzero(counts)
    return pa.table(
        {
            "hub": hubs.dictionary.take(pa.array(some // terms)),
            "term": codes.dictionary.take(pa.array(some % terms)),
            "messages": pa.array(counts[some], pa.int64()),
        }
    )


def _texts(messages: pa.Table) -> pa.Array:
    """The texts of payloads that are text, in small letters; null for any other. Of JSON, what it
    says and not the names of its fields."""
    kind = pc.utf8_lower(pc.fill_null(messages["content_type"].combine_chunks(), "text/plain"))
    text = pc.utf8_slice_codeunits(_valid(messages["payload"].combine_chunks()), 0, READ_CHARACTERS)
    json = pc.match_substring(kind, "json")
    plain = pc.and_not(pc.starts_with(kind, "text/"), json)
    nothing = pa.scalar(None, pa.string())
    said = pc.replace_substring_regex(pc.if_else(json, text, nothing), _JSON_NAMES_AND_ESCAPES, " ")
    return pc.utf8_lower(pc.if_else(plain, text, said))


def _valid(payloads: pa.Array) -> pa.Array:
    """As texts; null for what is no UTF-8, which is seldom enough to look at each."""
    try:
        return payloads.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text(payload) for payload in payloads.to_pylist()], pa.string())


def _text(payload: bytes) -> str | None:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return None


TABLE = arrow_table(
    "terms",
    SCHEMA,
    {"messages": ("hub", "content_type", "payload")},
    compute,
    key=("hub", "term", "hour"),
)
