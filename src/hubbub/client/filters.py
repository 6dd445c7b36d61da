"""Filters in the form that applications write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hubbub.domain.filters.definition import FilterDefinition
from hubbub.domain.filters.filters import compile_filter
from hubbub.domain.filters.text import parse_condition

Where = str | Mapping[str, Any]
"""A condition, as text (`payload.price lt 10`) or as an object."""

SUBSCRIPTION_FILTER = "hubbub.subscription"
"""The name of the filter that a subscription's `where` sets for its channels."""


def condition_of(where: Where) -> dict[str, Any]:
    """Raises `InvalidFilter`."""
    return parse_condition(where) if isinstance(where, str) else dict(where)


def definition_of(
    name: str,
    where: Where | None = None,
    channel: str | None = None,
    template: Mapping[str, Any] | None = None,
    radius: float | None = None,
    relevant: bool | None = None,
) -> FilterDefinition:
    """Creates a definition with the hub's checks. Raises `InvalidFilter`, `IncompleteFilter` and
    `InvalidName`."""
    definition = FilterDefinition(
        name,
        channel,
        None if template is None else dict(template),
        radius,
        relevant,
        None if where is None else condition_of(where),
    )
    compile_filter(definition)
    return definition
