"""Filters in a URL's query: `filter=` with a JSON definition, `where=` with a condition as text."""

from __future__ import annotations

import msgspec

from hubbub.domain.errors import InvalidFilter
from hubbub.domain.filters.filters import NO_FILTERS, Filters, filter_of_request
from hubbub.domain.filters.text import parse_condition
from hubbub.gateways.http import Target

_decode = msgspec.json.Decoder().decode


def filters_of(target: Target) -> Filters:
    """The filters in the query; messages must pass all of them. Raises `InvalidFilter`,
    `IncompleteFilter`, `InvalidName` and `TooManyFilters`."""
    filters = NO_FILTERS
    for text in target.all("filter"):
        filters = filters.beside(filter_of_request(_json(text)))
    for text in target.all("where"):
        filters = filters.beside(filter_of_request({"condition": parse_condition(text)}))
    return filters


def _json(text: str) -> object:
    try:
        return _decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidFilter(f"filter={text[:40]!r} is not JSON: {error}") from None
    except UnicodeEncodeError:
        raise InvalidFilter("filter is not UTF-8") from None
