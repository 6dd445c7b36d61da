"""Erasure of a user from the store, besides the deletions in other roles."""

from __future__ import annotations

from typing import Protocol

import msgspec


class RetainedByUser(msgspec.Struct, frozen=True):
    """Channels whose retained message a user published, and the name after which to continue; None
    at the end."""

    channels: tuple[str, ...]
    next: str | None


class ErasureStore(Protocol):
    async def find_retained(self, hub: str, user_id: str) -> list[str]:
        """The channels whose retained message the user published, including expired ones; scans all
        retained messages of the hub."""

    async def anonymise_changes(self, hub: str, user_id: str) -> int:
        """Removes the user's id from all changes of the hub's documents. Returns how many."""

    async def rename_producers(self, hub: str, principal: str, alias: str) -> int:
        """Renames a principal's producers to `alias`, so that stored puts keep their numbers.
        Returns how many."""

    async def count_named(self, hub: str, user_id: str, principal: str) -> int:
        """How many document changes and producers still contain the name."""
