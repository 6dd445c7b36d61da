"""The compiled filters of a session, in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from hubbub.domain.errors import NotFound, TooManyFilters
from hubbub.domain.filters.conditions import (
    ConditionCompiler,
    all_of,
    checked_relevant,
    is_relevant,
)
from hubbub.domain.filters.definition import (
    PARTS,
    FilterDefinition,
    check_filter_name,
    read_definition,
)
from hubbub.domain.filters.hmessages import HMESSAGE
from hubbub.domain.filters.names import ENVELOPE, Names
from hubbub.domain.filters.templates import checked_template
from hubbub.domain.filters.values import MAX_CHECKS, check_cost, invalid, missing, too_deep
from hubbub.domain.filters.view import MessageView, Predicate
from hubbub.domain.names import check_name
from hubbub.domain.patterns import PatternSet, check_pattern, is_pattern

MAX_FILTERS: Final = 100
MAX_FILTER_BYTES: Final = 16 * 1024
MAX_BYTES: Final = 64 * 1024
"""The most bytes of all filters of a session, in JSON."""


_NAMES: Final = {each.label: each for each in (ENVELOPE, HMESSAGE)}
_encoder: Final = msgspec.json.Encoder(order="deterministic")


class Filter:
    """A compiled definition. Filters with the same content have equal `key`s."""

    __slots__ = ("_pattern", "checks", "definition", "key", "passes", "size")

    def __init__(
        self, definition: FilterDefinition, passes: Predicate, key: bytes, checks: int
    ) -> None:
        self.definition = definition
        self.passes = passes
        self.key = key
        self.checks = checks
        """The most comparisons that a message costs."""
        self.size = len(key)
        channel = definition.channel
        self._pattern = PatternSet((channel,)) if channel and is_pattern(channel) else None

    def concerns(self, channel: str) -> bool:
        """Whether the filter applies to messages of the channel."""
        if self._pattern is not None:
            return self._pattern.matches(channel)
        return self.definition.channel in (None, channel)


def compile_filter(definition: FilterDefinition) -> Filter:
    """Raises `IncompleteFilter` if a part is missing, `InvalidName` for an invalid channel, and
    `InvalidFilter`; each names the position."""
    names = _NAMES[definition.names]
    check_filter_name(definition.name)
    if definition.channel is not None and is_pattern(definition.channel):
        check_pattern(definition.channel)
    elif definition.channel is not None:
        check_name(definition.channel, "channel")
    key = _key(definition, names)
    relevant = definition.relevant is not None and checked_relevant(definition.relevant)
    given = (definition.template, definition.radius, relevant or None, definition.condition)
    if all(part is None for part in given):
        raise missing(
            "template, radius, relevant or condition", "a filter has at least one of them"
        )
    template, checks = checked_template(definition.template, definition.radius, names)
    predicates = [template] if definition.template is not None else []
    if relevant:
        predicates.append(is_relevant)
        checks += 1
    if definition.condition is not None:
        compiler = ConditionCompiler(names)
        predicates.append(compiler.compile(definition.condition))
        checks += compiler.checks
    check_cost(checks)
    return Filter(definition, all_of(predicates), key, checks)


def filter_of_request(value: object) -> Filter:
    """Compiles the filter of one request or stream from JSON; it needs no name. Raises
    `IncompleteFilter`, `InvalidFilter` and `InvalidName`."""
    named = {"name": "request", **value} if isinstance(value, dict) else value
    return compile_filter(read_definition(named))


def _key(definition: FilterDefinition, names: Names) -> bytes:
    """The canonical content of a filter. Called first, since it rejects oversized definitions."""
    parts = [names.label, *(getattr(definition, part) for part in PARTS)]
    try:
        key = _encoder.encode(parts)
    except RecursionError:
        raise too_deep("") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise invalid("", f"is not JSON: {error}") from None
    if len(key) > MAX_FILTER_BYTES:
        raise invalid("", f"takes {len(key)} bytes; at most {MAX_FILTER_BYTES} are allowed")
    return key


class Screen:
    """The filters of a session that apply to one channel. Screens of two sessions with the same
    filters are equal, so that the sessions can share results."""

    __slots__ = ("_hash", "_keys", "checks", "passes")

    def __init__(self, filters: Iterable[Filter]) -> None:
        unique = {each.key: each for each in filters}
        self.checks = max(1, sum(each.checks for each in unique.values()))
        """The most comparisons that a message costs."""
        self.passes: Predicate = all_of([each.passes for each in unique.values()])
        self._keys = frozenset(unique)
        self._hash = hash(self._keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Screen) and self._keys == other._keys

    def __hash__(self) -> int:
        return self._hash


class Filters:
    """Filters in the order in which they were set. Immutable: each change returns a new object."""

    __slots__ = ("_filters",)

    def __init__(self, filters: Iterable[Filter] = ()) -> None:
        self._filters = tuple(filters)

    def __len__(self) -> int:
        return len(self._filters)

    @property
    def checks(self) -> int:
        """The most comparisons that a message costs."""
        return sum(each.checks for each in self._filters)

    def listed(self, channel: str | None = None) -> tuple[FilterDefinition, ...]:
        """The filters that were set for this channel; all filters if none is given."""
        found = (each.definition for each in self._filters)
        return tuple(each for each in found if channel is None or each.channel == channel)

    def adding(self, new: Filter) -> Filters:
        """Adds a filter; one with the same name and channel is replaced in its position. Raises
        `TooManyFilters`."""
        place = (new.definition.name, new.definition.channel)
        kept = [
            new if (each.definition.name, each.definition.channel) == place else each
            for each in self._filters
        ]
        if new not in kept:
            kept.append(new)
        _check_together(kept)
        return Filters(kept)

    def beside(self, new: Filter) -> Filters:
        """Adds a filter regardless of its name. Raises `TooManyFilters`."""
        _check_together([*self._filters, new])
        return Filters((*self._filters, new))

    def without(self, name: str, channel: str | None = None) -> Filters:
        """Removes the filter of a name; without a channel, all filters of the name. Raises
        `NotFound`."""
        kept = [
            each
            for each in self._filters
            if each.definition.name != name or channel not in (None, each.definition.channel)
        ]
        if len(kept) == len(self._filters):
            where = "" if channel is None else f" for {channel!r}"
            raise NotFound(f"there is no filter {name[:40]!r}{where}")
        return Filters(kept)

    def for_channel(self, channel: str) -> Screen | None:
        """None: no filter applies, and every message passes."""
        found = [each for each in self._filters if each.concerns(channel)]
        return Screen(found) if found else None

    def passes(self, view: MessageView) -> bool:
        """Whether all filters that apply to the message's channel accept it."""
        channel = view.message.channel
        return all(each.passes(view) for each in self._filters if each.concerns(channel))


def _check_together(filters: list[Filter]) -> None:
    checks, size = sum(each.checks for each in filters), sum(each.size for each in filters)
    if len(filters) > MAX_FILTERS:
        raise TooManyFilters(f"a session may have {MAX_FILTERS} filters; unset one first")
    if checks > MAX_CHECKS or size > MAX_BYTES:
        raise TooManyFilters(
            f"the session's filters make {checks} comparisons and take {size} bytes; "
            f"at most {MAX_CHECKS} and {MAX_BYTES} are allowed"
        )


NO_FILTERS: Final = Filters()
EVERYTHING: Final = Screen(())
"""Passes every message."""
