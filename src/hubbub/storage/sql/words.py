"""What indexes the words of `search_texts`: FTS5 in SQLite, a `tsvector` in PostgreSQL.

Words hold letters and digits only (`domain.search.words_of`), so that no tokenizer splits or
changes them. Each row also has a word for the block of places in which it lies. A question names
the blocks of a channel, so that its cost does not depend on how often its words occur elsewhere:
otherwise FTS5 would look for the first match among the rows of all hubs. It asks for single words;
whether they follow each other is read from the rows.
"""

from __future__ import annotations

from collections.abc import Iterable

_BLOCK_BITS = 12
_MARK = "\u00a7"
"""Begins no word, and is no separator."""
WORD_VECTOR = (
    "array_to_tsvector(string_to_array"
    f"(words || ' {_MARK}' || to_hex(place >> {_BLOCK_BITS}), ' '))"
)
"""The indexed words in PostgreSQL."""


def blocks(low: int, high: int) -> list[str]:
    """The words for the blocks in which the range of places lies."""
    return [f"{_MARK}{n:x}" for n in range(low >> _BLOCK_BITS, (high >> _BLOCK_BITS) + 1)]


def single_words(phrases: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(word for phrase in phrases for word in phrase))


def sqlite_words(table: str) -> tuple[str, ...]:
    """The index holds which rows have a word, and nothing else; triggers keep it up with them."""

    def indexed(row: str) -> str:
        return f"{row}.words || printf(' {_MARK}%x', {row}.place >> {_BLOCK_BITS})"

    return (
        "CREATE VIRTUAL TABLE search_index USING"
        " fts5(words, content='', columnsize=0, detail=none, tokenize='ascii')",
        f"CREATE TRIGGER index_added_{table} AFTER INSERT ON {table} BEGIN"  # noqa: S608 - names
        f" INSERT INTO search_index (rowid, words) VALUES (NEW.place, {indexed('NEW')}); END",
        f"CREATE TRIGGER index_deleted_{table} AFTER DELETE ON {table} BEGIN"  # noqa: S608
        " INSERT INTO search_index (search_index, rowid, words)"
        f" VALUES ('delete', OLD.place, {indexed('OLD')}); END",
    )


def postgres_words(table: str) -> tuple[str, ...]:
    """Without a list of pending entries, which every question would have to read."""
    return (
        f"CREATE INDEX search_index ON {table} USING gin ({WORD_VECTOR}) WITH (fastupdate = off)",
    )
