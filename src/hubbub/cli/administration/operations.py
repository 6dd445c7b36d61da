"""The operations of the admin API, as scripts/generate_operations.py writes them down from the
server's table of routes: the command line does without the server's modules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import msgspec

_PARAMETER = re.compile(r"{(\w+)}")


class Field(msgspec.Struct, frozen=True):
    """A parameter of the query, or a field of the body."""

    name: str
    kind: Literal["flag", "whole", "number", "text", "texts", "json"]
    choices: tuple[str, ...] = ()
    about: str = ""


class AdminOperation(msgspec.Struct, frozen=True, rename="camel"):
    """`columns` are the fields of an entry, where the answer is a list of entries."""

    id: str
    method: str
    path: str
    tag: str
    summary: str
    query: tuple[Field, ...] = ()
    takes_body: bool = False
    body: tuple[Field, ...] = ()
    answers: bool = False
    columns: tuple[str, ...] | None = None
    paged: bool = False

    @property
    def parameters(self) -> list[str]:
        """The names in the path."""
        return _PARAMETER.findall(self.path)

    def address(self, values: Mapping[str, str]) -> str:
        """The path with these values."""
        return _PARAMETER.sub(lambda found: quote(values[found[1]], safe=""), self.path)


@cache
def operations() -> dict[str, AdminOperation]:
    """All operations by their ids."""
    text = Path(__file__).with_name("operations.json").read_bytes()
    return {each.id: each for each in msgspec.json.decode(text, type=list[AdminOperation])}


@cache
def reader_of(operation: AdminOperation) -> AdminOperation | None:
    """The operation that reads what another one writes at the same path."""
    for each in operations().values():
        if (each.method, each.path) == ("GET", operation.path) and each.columns is None:
            return each
    return None
