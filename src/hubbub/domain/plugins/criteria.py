"""Plugins' queries for documents: criteria and sort order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from hubbub.domain.commands.status import invalid
from hubbub.domain.filters.conditions import ConditionCompiler
from hubbub.domain.filters.names import Names
from hubbub.domain.filters.values import MAX_DEPTH, check_cost
from hubbub.domain.filters.view import Getter, MessageView, at_path, payload
from hubbub.domain.messages import JSON, Message
from hubbub.domain.shown import shown

MAX_LIMIT: Final = 1000
MAX_SORT_KEYS: Final = 8
MAX_BYTES: Final = 256 * 1024
"""The size limit of criteria in JSON."""

Document = dict[str, Any]
_encoder: Final = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Criteria:
    """`matches` tells whether a document satisfies the criteria. Operators on relevance and
    location need its message."""

    matches: Callable[[Document, Message | None], bool]
    checks: int
    """The most comparisons that a document costs."""


class _Attributes(Mapping[str, Getter]):
    """Getters for a document, which may have any attribute."""

    def __getitem__(self, name: str) -> Getter:
        return at_path(payload, (name,))

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


_NAMES: Final = Names("document", _Attributes(), untemplated=frozenset())
_NO_MESSAGE: Final = Message("", "", "", "", b"null", JSON, 0)


def compile_criteria(criteria: object, now: int) -> Criteria:
    """Compiles a condition with the operators of filters, on dotted paths into the document; None
    matches all documents. `now`: milliseconds since 1970. Raises `CommandRefused` and
    `InvalidFilter`."""
    if criteria is None:
        return Criteria(_all, 0)
    if len(_encoder.encode(criteria)) > MAX_BYTES:
        raise invalid(f"criteria take more than {MAX_BYTES} bytes; ask for less at once")
    compiler = ConditionCompiler(_NAMES)
    holds = compiler.compile(criteria, "criteria")
    check_cost(compiler.checks)

    def matches(document: Document, message: Message | None) -> bool:
        view = MessageView(message or _NO_MESSAGE, now)
        view.payload = document
        return holds(view)

    return Criteria(matches, compiler.checks)


def _all(document: Document, message: Message | None) -> bool:
    return True


def read_limit(limit: object) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_LIMIT:
        raise invalid(f"limit is {shown(limit)}; give a whole number from 1 to {MAX_LIMIT}")
    return limit


def read_sort(sort: object) -> list[tuple[tuple[str, ...], bool]]:
    """Returns (path, descending) pairs from `"payload.price"`, `"-published"`, or a list of such
    texts."""
    given = [sort] if isinstance(sort, str) else sort or []
    if (
        not isinstance(given, list)
        or len(given) > MAX_SORT_KEYS
        or not all(isinstance(path, str) and path.strip("-.") for path in given)
        or any(path.count(".") > MAX_DEPTH for path in given)
    ):
        raise invalid(f"sort is {shown(sort)}; give a path such as '-published', or a list of them")
    return [(tuple(path.removeprefix("-").split(".")), path.startswith("-")) for path in given]


def sorted_documents(
    documents: list[Document], keys: list[tuple[tuple[str, ...], bool]]
) -> list[Document]:
    """Sorts documents; values of the same type are grouped. Documents without the attribute come
    last, or first in descending order."""
    for path, descending in reversed(keys):
        documents = sorted(documents, key=lambda each: _rank(each, path), reverse=descending)
    return documents


def _rank(document: Document, path: tuple[str, ...]) -> tuple[int, Any]:
    value: Any = document
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
        if value is None:
            break
    match value:
        case bool():
            return 0, value
        case int() | float():
            return 1, value
        case str():
            return 2, value
        case None:
            return 4, 0
        case _:
            return 3, 0
