"""The schema that all SQL stores share, as numbered migrations.

A migration is a file `migrations/NNNN_name.sql`. Once released it never changes; the schema
moves on by adding the next number. What the databases spell differently stands in the files as
`{word}` and is filled in from a `Dialect`.
"""

from __future__ import annotations

from importlib import resources

import msgspec

from hubbub.domain.errors import StoreUnavailable


class Dialect(msgspec.Struct, frozen=True):
    """The types of texts (compared by code point) and byte strings, the column definition of a
    number that counts itself up, and what follows a table whose rows change all the time."""

    text: str
    blob: str
    identity: str
    updated_often: str


SQLITE = Dialect(text="TEXT", blob="BLOB", identity="INTEGER PRIMARY KEY", updated_often="")
# The collation is fixed, since those of the system change with its updates and indexes with them.
# Pages that are half empty take a row's next version beside the last one, without new entries in
# the indexes.
POSTGRES = Dialect(
    text='TEXT COLLATE "C"',
    blob="BYTEA",
    identity="BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    updated_often=" WITH (fillfactor = 50)",
)


class Migration(msgspec.Struct, frozen=True):
    """The statements that lead from the version before to this one."""

    version: int
    statements: tuple[str, ...]


def load_migrations(dialect: Dialect) -> tuple[Migration, ...]:
    """All migrations in order, spelled for this database."""
    files = sorted(
        (entry for entry in _migrations_folder().iterdir() if entry.name.endswith(".sql")),
        key=lambda entry: entry.name,
    )
    migrations = tuple(
        Migration(int(entry.name[:4]), _statements(entry.read_text(encoding="utf-8"), dialect))
        for entry in files
    )
    assert [m.version for m in migrations] == list(range(1, len(migrations) + 1))
    return migrations


def refuse_newer(place: object, version: int, newest: int) -> None:
    """Raises `StoreUnavailable` for an older Hubbub on the data of a newer one."""
    if version > newest:
        raise StoreUnavailable(
            f"{place} has schema version {version}, written by a newer Hubbub; this one knows"
            f" versions up to {newest}: run the newer Hubbub, or restore a backup from before"
        )


def _migrations_folder() -> resources.abc.Traversable:
    return resources.files("hubbub.storage.sql") / "migrations"


def _statements(script: str, dialect: Dialect) -> tuple[str, ...]:
    """A statement ends with a ';' at the end of a line; comments are lines of their own."""
    lines = [line for line in script.splitlines() if not line.startswith("--")]
    text = "\n".join(lines)
    for word in dialect.__struct_fields__:
        text = text.replace(f"{{{word}}}", getattr(dialect, word))
    return tuple(part.strip() for part in text.split(";\n") if part.strip())
