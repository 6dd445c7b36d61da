"""Pages of lists that are in the order of their cursors."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from hubbub.gateways.admin.shapes import Cursor, Limit, Page

T = TypeVar("T")


class PageQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of a list is wanted."""

    limit: Limit = 100
    cursor: Cursor = ""


class ListQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    """The same, of entries with names."""

    prefix: Annotated[str, Meta(max_length=255, description="Only names that begin so.")] = ""


def page_of(
    items: Sequence[T], query: ListQuery, name_of: Callable[[T], str]
) -> tuple[list[T], str | None]:
    """The page behind the cursor, which is the last name of the page before; and the cursor of the
    next page, if there is one. `items` are in the order of their names."""
    matching = [item for item in items if name_of(item).startswith(query.prefix)]
    start = bisect_right(matching, query.cursor, key=name_of) if query.cursor else 0
    return cut(matching[start : start + query.limit + 1], query.limit, name_of)


def cut(
    items: Sequence[T], limit: int, cursor_of: Callable[[T], str]
) -> tuple[list[T], str | None]:
    """The first `limit` of the items, and the cursor of the next page if there are more of them."""
    page = list(items[:limit])
    return page, cursor_of(page[-1]) if len(items) > limit else None


def make_page(items: Sequence[T], following: str | None) -> Page[Any]:
    return Page(items=list(items), next=following)
