"""Models: SQL files, each of which answers one question from tables and other models.

A file begins with its question and a header. The same text runs in Spark and in DuckDB: a prelude
of functions (`prelude.spark.sql`, `prelude.duckdb.sql`) covers what the dialects say differently.

    -- How many messages and bytes went in and out of each hub?
    -- grain: hub, time
    -- partition: hour(time)
    -- reads: messages, sessions.opened_at
    -- columns: text hub, time time, whole messages bytes

A partition is the unit that a round computes again. Its rows depend on nothing but the source rows
of the same hour, day or month, by the source's time column or the one named after a dot. `all` is
one partition; a `view` is not stored, but evaluated when it is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

import pyarrow as pa

from hubbub.pipeline.columns import schema
from hubbub.pipeline.errors import ModelError

VIEW: Final = "view"
ALL: Final = "all"
_NEEDED: Final = ("grain", "partition", "reads", "columns")
_FIELD: Final = re.compile(r"(grain|partition|reads|columns|recent): *(.*)")
_PARTITION: Final = re.compile(r"(hour|day|month)\((\w+)\)|all|view")
_RECENT: Final = re.compile(r"(\d+) hours")


@dataclass(frozen=True)
class Model:
    name: str
    question: str
    grain: tuple[str, ...]
    """The columns that identify a row."""
    partition: str
    """`all`, `view`, or the column by which rows belong to an hour, day or month."""
    unit: str
    """`hour`, `day` or `month`; empty if the model is one partition or a view."""
    reads: Mapping[str, tuple[str, ...]]
    """The tables and models that it reads, and the columns by which their rows belong to a
    partition; none: their time column."""
    schema: pa.Schema
    recent_hours: int | None
    """How many hours of the sources are relevant, counted back from the newest event."""
    text: str
    """The whole file."""

    @property
    def is_stored(self) -> bool:
        return self.partition != VIEW

    @cached_property
    def fingerprint(self) -> int:
        """Differs between versions of the model, for the same functions."""
        text = f"{self.text}\n{prelude('duckdb')}"
        return int.from_bytes(sha256(text.encode()).digest()[:7], "big")


def parsed(name: str, text: str) -> Model:
    """Reads a model's header. Raises `ModelError`."""

    def wrong(what: str) -> ModelError:
        return ModelError(f"the model {name}.sql {what}")

    comments = [line[2:].strip() for line in text.splitlines() if line.startswith("--")]
    if not comments or not comments[0].endswith("?"):
        raise wrong("does not begin with its question; write it in the first line: -- How many …?")
    fields = {found[1]: found[2].strip() for line in comments if (found := _FIELD.match(line))}
    if missing := [each for each in _NEEDED if not fields.get(each)]:
        raise wrong(f"has no line `-- {missing[0]}: …` in its header")
    partition = _PARTITION.fullmatch(fields["partition"])
    if partition is None:
        raise wrong(f"has the partition {fields['partition']!r}; give hour(column), day(column),"
                    " month(column), all or view")  # fmt: skip
    try:
        shape = schema(fields["columns"])
    except (KeyError, ValueError):
        raise wrong(
            "has columns without a known type; write them as in `text hub, time time, whole"
            " messages`, with the types text, whole, real, flag and time"
        ) from None
    grain = _names(fields["grain"])
    column = partition[2] or partition[0]
    named = [*grain, column] if partition[2] else grain
    if unknown := [each for each in named if each not in shape.names]:
        raise wrong(f"names {unknown[0]!r} in its header, which is not among its columns")
    recent = _RECENT.fullmatch(fields.get("recent", ""))
    if "recent" in fields and recent is None:
        raise wrong(f"has `recent: {fields['recent']}`; write it as in `recent: 192 hours`")
    reads: dict[str, tuple[str, ...]] = {}
    for each in _names(fields["reads"]):
        source, _, by = each.partition(".")
        reads[source] = (*reads.get(source, ()), *((by,) if by else ()))
    return Model(
        name,
        comments[0],
        grain,
        column,
        partition[1] or "",
        reads,
        shape,
        int(recent[1]) if recent else None,
        text,
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())


def ordered(models: Iterable[Model]) -> dict[str, Model]:
    """Models by name, each after those that it reads. Raises `ModelError` for a circle."""
    waiting = {model.name: model for model in models}
    views = {model.name for model in waiting.values() if not model.is_stored}
    for model in waiting.values():
        if model.is_stored and (view := next(iter(views & model.reads.keys()), None)):
            raise ModelError(f"the model {model.name} is stored and reads the view {view}; let it"
                             " read what the view reads")  # fmt: skip
    found: dict[str, Model] = {}
    while waiting:
        ready = [each for each in waiting.values() if waiting.keys().isdisjoint(each.reads)]
        if not ready:
            names = ", ".join(sorted(waiting))
            raise ModelError(f"the models {names} read themselves, each other or one that does")
        found.update({each.name: each for each in ready})
        waiting = {name: each for name, each in waiting.items() if name not in found}
    return found


def fingerprints() -> dict[str, int]:
    """The fingerprints of stored models, by name."""
    return {model.name: model.fingerprint for model in MODELS.values() if model.is_stored}


def outdated(known: Mapping[str, int]) -> set[str]:
    """Models whose tables were never made, or by another version of the model, as the fingerprints
    of a round tell."""
    return {name for name, number in fingerprints().items() if known.get(name) != number}


@cache
def prelude(engine: str) -> tuple[str, ...]:
    """The statements that define the functions of models in `spark` or `duckdb`."""
    text = (_FOLDER / f"prelude.{engine}.sql").read_text("utf-8")
    return tuple(each.strip() for each in text.split(";\n") if each.strip())


def _packaged(folder: Traversable) -> Iterable[Model]:
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        name, _, ending = file.name.partition(".")
        if ending == "sql":
            yield parsed(name, file.read_text("utf-8"))


_FOLDER: Final = files(__package__)
MODELS: Final = ordered(_packaged(_FOLDER))
"""The models by name, each after those that it reads."""
