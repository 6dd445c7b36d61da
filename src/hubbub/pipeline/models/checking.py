"""Checks a model before anything runs: what it reads, its columns, and its grain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from hubbub.pipeline.errors import QueryRefused
from hubbub.pipeline.models import Model
from hubbub.pipeline.models.evaluating import connected, duckdb
from hubbub.pipeline.models.statements import reads_of, reason


def problems(model: Model, schemas: Mapping[str, pa.Schema]) -> Iterator[str]:
    """What is wrong with a model, as sentences; `schemas` are those of all tables by name."""
    if unknown := [name for name in model.reads if name not in schemas]:
        yield f"reads {unknown[0]}, which is no table; there are {', '.join(sorted(schemas))}"
        return
    for name, columns in model.reads.items():
        if absent := [each for each in columns if each not in schemas[name].names]:
            yield f"reads {name}.{absent[0]}, but {name} has no such column"
            return
    with connected() as connection:
        try:
            reads = reads_of(connection, model.text)
            if reads.beyond:
                yield f"reads {min(reads.beyond)}; a model reads tables and other models only"
                return
            if undeclared := sorted(reads.names - reads.parts - model.reads.keys()):
                yield f"reads {undeclared[0]}, which its line `reads` does not name"
                return
            if unread := sorted(model.reads.keys() - reads.names):
                yield f"names {unread[0]} in its line `reads` and does not read it"
            for name in model.reads:
                connection.register(name, schemas[name].empty_table())
            found = connection.sql(model.text).to_arrow_table().schema
        except QueryRefused as error:
            yield f"cannot be parsed by DuckDB: {error.message}"
        except duckdb().Error as error:
            yield f"cannot be run by DuckDB: {reason(error)}"
        else:
            yield from misfits(model, found, "DuckDB")


def misfits(model: Model, found: pa.Schema, engine: str) -> Iterator[str]:
    """Columns that are not as the header says."""
    said, given = set(model.schema.names), set(found.names)
    if said != given:
        wrong = min(said ^ given)
        where = "has" if wrong in given else "lacks"
        yield f"{where} the column {wrong}, other than its line `columns` says ({engine})"
        return
    for field in model.schema:
        if _kind(found.field(field.name).type) not in (_kind(field.type), "nothing"):
            kind = _kind(found.field(field.name).type)
            yield f"has the column {field.name} as {kind}, not as {_kind(field.type)} ({engine})"


def repeated(connection: Any, model: Model) -> str | None:
    """A sentence about rows of the model's table that its grain does not tell apart; `connection`
    knows the table."""
    names = ", ".join(f'"{name}"' for name in model.grain)
    sql = f"SELECT {names} FROM {model.name} GROUP BY {names} HAVING count(*) > 1 LIMIT 1"  # noqa: S608
    if found := connection.sql(sql).fetchall():
        said = ", ".join(
            f"{name} {value}" for name, value in zip(model.grain, found[0], strict=True)
        )
        return f"has several rows for {said}; its grain should tell rows apart"
    return None


def _kind(found: pa.DataType) -> str:
    if pa.types.is_integer(found) or (pa.types.is_decimal(found) and found.scale == 0):
        return "whole"
    if pa.types.is_floating(found) or pa.types.is_decimal(found):
        return "real"
    if pa.types.is_timestamp(found):
        return "time"
    if pa.types.is_boolean(found):
        return "flag"
    if pa.types.is_null(found):
        return "nothing"
    return "text" if pa.types.is_string(found) or pa.types.is_large_string(found) else str(found)
