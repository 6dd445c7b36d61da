"""Counts words in the text of messages. Needs Arrow only."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.grouping import Groups, changes
from hubbub.pipeline.transforms.words import words_of

STOP_WORDS = (files("hubbub.pipeline") / "transforms/stop_words.txt").read_text("utf-8").split()
"""Frequent words without meaning, in the most common languages."""
READ_CHARACTERS = 1000
"""The characters of each message that are read; enough to know its subject."""
_AT_ONCE = 16_384
"""Messages whose words are counted together."""

_JSON_NAMES_AND_ESCAPES = r'"[^"\\]*"\s*:|\\(?:u[0-9a-fA-F]{4}|.)'


def term_counts(messages: pa.Table) -> pa.Table:
    """The number of messages that contain each word, by `hub` and `time`, without stop words."""
    parts = [
        _counted(messages.slice(start, _AT_ONCE).combine_chunks())
        for start in range(0, max(len(messages), 1), _AT_ONCE)
    ]
    every = pa.concat_tables(parts)
    found = Groups(every, ("hub", "time", "term")).added({"messages": (every["messages"], "sum")})
    # Looked at once for each word, and not for each time that it was said.
    codes = found["term"].combine_chunks().dictionary_encode()
    common = pc.is_in(codes.dictionary, pa.array(STOP_WORDS))
    telling = pc.match_substring_regex(codes.dictionary, r"\p{L}")
    wanted = pc.and_(pc.invert(common), telling).take(codes.indices)
    return found.filter(wanted)


def _counted(messages: pa.Table) -> pa.Table:
    """How many of these messages contain each word, by hub and time."""
    groups = Groups(messages, ("hub", "time"))
    words = words_of(_texts(messages))
    codes = words.said.dictionary_encode()
    terms = max(len(codes.dictionary), 1)
    ordered = np.sort(words.text * terms + codes.indices.to_numpy())
    once = ordered[changes(ordered)]  # np.unique hashes, which takes ten times as long
    pairs = groups.ids[once // terms] * terms + once % terms
    some, counts = np.unique(pairs, return_counts=True)
    keys = groups.keys.take(pa.array(some // terms))
    return keys.append_column("term", codes.dictionary.take(pa.array(some % terms))).append_column(
        "messages", pa.array(counts, pa.int64())
    )


def _texts(messages: pa.Table) -> pa.Array:
    """The texts of textual payloads; null for others. For JSON, the values without field names."""
    kinds = pc.fill_null(messages["content_type"].combine_chunks(), "text/plain")
    codes = kinds.dictionary_encode()
    known = pc.utf8_lower(codes.dictionary)
    is_json = pc.match_substring(known, "json")
    json = is_json.take(codes.indices)
    plain = pc.and_not(pc.starts_with(known, "text/"), is_json).take(codes.indices)
    text = _beginnings(_valid(messages["payload"].combine_chunks()))
    nothing = pa.scalar(None, pa.string())
    if not pc.any(is_json).as_py():
        return pc.if_else(plain, text, nothing)
    said = pc.replace_substring_regex(pc.if_else(json, text, nothing), _JSON_NAMES_AND_ESCAPES, " ")
    return pc.if_else(plain, text, said)


def _beginnings(texts: pa.Array) -> pa.Array:
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    return (
        texts if longest <= READ_CHARACTERS else pc.utf8_slice_codeunits(texts, 0, READ_CHARACTERS)
    )


def _valid(payloads: pa.Array) -> pa.Array:
    """Decodes payloads; null for invalid UTF-8, which is rare enough for a loop."""
    try:
        return payloads.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text(payload) for payload in payloads.to_pylist()], pa.string())


def _text(payload: bytes) -> str | None:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return None
