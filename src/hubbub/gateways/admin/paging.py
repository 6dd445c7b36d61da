"""Pages of lists that are ordered by their cursors."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from hubbub.engine.administration.lists import MOST_ROWS, cut
from hubbub.gateways.admin.shapes import CountedPage, Cursor, Limit, Page

__all__ = ["CountedPage", "ListQuery", "PageQuery", "Search", "cut", "make_page", "page_of"]

T = TypeVar("T")

Search = Annotated[str, Meta(max_length=255, description="Only entries that hold this text.")]


class PageQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The requested part of a list."""

    limit: Limit = 100
    cursor: Cursor = ""

    @property
    def rows(self) -> int:
        """`limit` for lists that can be very long, whose pages have at most 200 entries."""
        return min(self.limit, MOST_ROWS)


class ListQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    """The requested part of a list of named entries."""

    prefix: Annotated[str, Meta(max_length=255, description="Only names that begin so.")] = ""


def page_of(
    items: Sequence[T], query: ListQuery, name_of: Callable[[T], str]
) -> tuple[list[T], str | None]:
    """The page after the cursor, which is the last name of the previous page, and the next page's
    cursor if there is one. `items` are ordered by name."""
    matching = [item for item in items if name_of(item).startswith(query.prefix)]
    start = bisect_right(matching, query.cursor, key=name_of) if query.cursor else 0
    return cut(matching[start : start + query.limit + 1], query.limit, name_of)


def make_page(items: Sequence[T], following: str | None) -> Page[Any]:
    return Page(items=list(items), next=following)


def counted(items: Sequence[T], following: str | None, total: int) -> CountedPage[Any]:
    return CountedPage(items=list(items), next=following, total=total)
