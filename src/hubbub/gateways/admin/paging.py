"""Pages of lists that are sorted by name."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from hubbub.gateways.admin.shapes import Cursor, Limit, Page

T = TypeVar("T")


class ListQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of a list is wanted."""

    limit: Limit = 100
    cursor: Cursor = ""
    prefix: Annotated[str, Meta(max_length=255, description="Only names that begin so.")] = ""


def page_of(
    items: Sequence[T], query: ListQuery, name_of: Callable[[T], str]
) -> tuple[list[T], str | None]:
    """The page behind the cursor, which is the last name of the page before."""
    matching = [item for item in items if name_of(item).startswith(query.prefix)]
    start = bisect_right(matching, query.cursor, key=name_of) if query.cursor else 0
    page = list(matching[start : start + query.limit])
    more = len(matching) > start + query.limit
    return page, name_of(page[-1]) if more else None


def given(value: T | msgspec.UnsetType) -> T | None:
    """A parameter that may be left out. (As `None` it could be written as the text `null`.)"""
    return None if value is msgspec.UNSET else value


def make_page(items: Sequence[Any], following: str | None) -> Page[Any]:
    return Page(items=list(items), next=following)
