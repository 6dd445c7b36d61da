"""Splits many texts into lower-case words at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.grouping import Integers

MIN_CHARACTERS, MAX_CHARACTERS = 3, 40
_NO_LETTER = r"[^\p{L}\p{N}]+"
_SMALL = np.array(
    [ord(chr(code).lower()) if code < 128 and chr(code).isalnum() else 0 for code in range(256)],
    np.uint8,
)
"""The lower-case letter for each ASCII byte; 0 for separators."""


class Words(NamedTuple):
    """Words of permitted length, and the positions of their texts."""

    said: pa.Array
    text: Integers


def words_of(texts: pa.Array) -> Words:
    """Consecutive letters and digits form a word. Texts may be null."""
    places = np.arange(len(texts))
    plain = pc.fill_null(pc.string_is_ascii(texts), True)
    if pc.all(plain).as_py():
        return _plain_words(texts, places)
    is_plain = plain.to_numpy(zero_copy_only=False)
    parts = (
        _plain_words(texts.filter(plain), places[is_plain]),
        _any_words(texts.filter(pc.invert(plain)), places[~is_plain]),
    )
    return Words(
        pa.concat_arrays([part.said for part in parts]),
        np.concatenate([part.text for part in parts]),
    )


def _any_words(texts: pa.Array, places: Integers) -> Words:
    words = pc.split_pattern_regex(pc.utf8_lower(texts), _NO_LETTER)
    said = words.flatten()
    length = pc.utf8_length(said)
    fitting = pc.and_(
        pc.greater_equal(length, MIN_CHARACTERS), pc.less_equal(length, MAX_CHARACTERS)
    )
    text = places[pc.list_parent_indices(words).to_numpy()]
    return Words(said.filter(fitting), text[fitting.to_numpy(zero_copy_only=False)])


def _plain_words(texts: pa.Array, places: Integers) -> Words:
    """A faster version for ASCII texts, which works on bytes and takes a tenth of the time."""
    known = pc.fill_null(texts, "")
    ends = np.frombuffer(known.buffers()[1], np.int32)[known.offset : known.offset + len(known) + 1]
    written = known.buffers()[2]
    if written is None or ends[0] == ends[-1]:
        return Words(pa.array([], pa.string()), np.zeros(0, np.int64))
    letters = _SMALL[np.frombuffer(written, np.uint8)[ends[0] : ends[-1]]]
    ends = ends - ends[0]
    inside = letters != 0
    begins = inside.copy()
    begins[1:] &= ~inside[:-1]
    # A text's first letter begins a word, whatever the text before ended with.
    heads = ends[:-1][ends[:-1] < len(letters)]
    begins[heads] = inside[heads]
    stops = inside.copy()
    stops[:-1] &= ~inside[1:]
    tails = heads[heads > 0] - 1
    stops[tails] = inside[tails]
    starts = np.flatnonzero(begins)
    length = np.flatnonzero(stops) - starts + 1
    fitting = (length >= MIN_CHARACTERS) & (length <= MAX_CHARACTERS)
    chosen = letters[inside][np.repeat(fitting, length)]
    offsets = np.zeros(int(fitting.sum()) + 1, np.int32)
    np.cumsum(length[fitting], out=offsets[1:])
    said = pa.StringArray.from_buffers(
        len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(chosen)
    )
    return Words(said, places[np.searchsorted(ends, starts[fitting], side="right") - 1])
