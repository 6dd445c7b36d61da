"""Retention: which of a channel's oldest messages may be deleted.

Messages that a durable subscription still needs are kept, unless the rules say otherwise. Messages
that are not yet in the journal are always kept.
"""

from __future__ import annotations

import msgspec

from hubbub.domain.rules import Rules


class StoredRange(msgspec.Struct, frozen=True):
    """The stored messages of a channel, and the readers that still need them.

    `first` and `head` are the oldest and the newest serial. `by_age` and `by_bytes` are the first
    serials that these limits would keep; 0 if nothing exceeds them. Everything up to `floor` is
    acknowledged by all durable subscriptions; None: there are none. Everything up to `exported` is
    in the journal; None: no journal is kept.
    """

    first: int
    head: int
    by_age: int = 0
    by_bytes: int = 0
    floor: int | None = None
    exported: int | None = None


def limited_first(rules: Rules, holdings: StoredRange) -> int:
    """The first serial that the limits alone would keep."""
    by_count = holdings.head + 1 - rules.max_stored_messages if rules.max_stored_messages else 0
    return max(holdings.first, holdings.by_age, holdings.by_bytes, by_count)


def first_to_keep(rules: Rules, holdings: StoredRange) -> int:
    """The first serial to keep; everything before it may be deleted."""
    first = limited_first(rules, holdings)
    if holdings.floor is not None:
        unread = holdings.floor + 1
        if not rules.drop_unread:
            first = min(first, unread)
        if rules.reclaim_acknowledged:
            first = max(first, unread)
    if holdings.exported is not None:
        first = min(first, holdings.exported + 1)
    return max(holdings.first, min(first, holdings.head + 1))
