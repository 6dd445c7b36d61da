"""Which documents a plugin looks for, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from hubbub.domain.commands.status import invalid
from hubbub.domain.filters.conditions import ConditionCompiler
from hubbub.domain.filters.names import Names
from hubbub.domain.filters.values import MAX_CHECKS
from hubbub.domain.filters.view import Getter, MessageView, at_path, payload
from hubbub.domain.messages import JSON, Message
from hubbub.domain.shown import shown

MAX_LIMIT: Final = 1000
MAX_SORT_KEYS: Final = 8

Document = dict[str, Any]
Matches = Callable[[Document, Message | None], bool]
"""Whether a document meets the criteria. Operators on relevance and places need its message."""


class _Attributes(Mapping[str, Getter]):
    """Of a document, which may have any."""

    def __getitem__(self, name: str) -> Getter:
        return at_path(payload, (name,))

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


_NAMES: Final = Names("document", _Attributes(), untemplated=frozenset())
_NO_MESSAGE: Final = Message("", "", "", "", b"null", JSON, 0)


def compile_criteria(criteria: object, now: int) -> Matches:
    """A condition with the operators of filters, on dotted paths into the document; None is met by
    all. `now`: milliseconds since 1970. Raises `CommandRefused` and `InvalidFilter`."""
    if criteria is None:
        return _all
    compiler = ConditionCompiler(_NAMES)
    holds = compiler.compile(criteria, "criteria")
    if compiler.checks > MAX_CHECKS:
        raise invalid(f"criteria make {compiler.checks} comparisons; at most {MAX_CHECKS}")

    def matches(document: Document, message: Message | None) -> bool:
        view = MessageView(message or _NO_MESSAGE, now)
        view.payload = document
        return holds(view)

    return matches


def _all(document: Document, message: Message | None) -> bool:
    return True


def read_limit(limit: object) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_LIMIT:
        raise invalid(f"limit is {shown(limit)}; give a whole number from 1 to {MAX_LIMIT}")
    return limit


def read_sort(sort: object) -> list[tuple[tuple[str, ...], bool]]:
    """Paths, and whether they descend: `"payload.price"`, `"-published"`, or a list of such."""
    given = [sort] if isinstance(sort, str) else sort or []
    if (
        not isinstance(given, list)
        or len(given) > MAX_SORT_KEYS
        or not all(isinstance(path, str) and path.strip("-.") for path in given)
    ):
        raise invalid(f"sort is {shown(sort)}; give a path such as '-published', or a list of them")
    return [(tuple(path.removeprefix("-").split(".")), path.startswith("-")) for path in given]


def sorted_documents(
    documents: list[Document], keys: list[tuple[tuple[str, ...], bool]]
) -> list[Document]:
    """Values of one type beside each other; documents without the attribute come last, or first
    where it descends."""
    for path, descending in reversed(keys):
        documents = sorted(documents, key=lambda each: _rank(each, path), reverse=descending)
    return documents


def _rank(document: Document, path: tuple[str, ...]) -> tuple[int, Any]:
    value: Any = document
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
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
