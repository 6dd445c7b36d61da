"""Owned channels, and subscriptions of users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from hubbub.domain.commands.objects import HChannel

RecordSaved = Literal["created", "replaced", "owned", "full", "share"]
UserInRecord = Literal["owner", "participant"]


class CommandStore(Protocol):
    async def save_channel_record(
        self, hub: str, record: HChannel, most: int, share: int
    ) -> RecordSaved:
        """Creates the record, or replaces the one with the same owner; subscriptions of users who
        are not participants (any more) are deleted. A record owned by the hub itself
        (`take_user_off_record`) gets the new owner. Without effect if another user owns the record
        (`owned`), the hub already has `most` records (`full`), or the new owner has `share`."""

    async def take_user_off_record(
        self, hub: str, channel: str, user_id: str
    ) -> frozenset[UserInRecord]:
        """Removes the user from the participants; the user's ownership passes to the hub. Returns
        the user's former roles."""

    async def read_channel_record(self, hub: str, channel: str) -> HChannel | None: ...

    async def read_channel_records(self, hub: str, channels: Sequence[str]) -> list[HChannel]:
        """The existing records, ordered by channel."""

    async def list_channel_records(
        self, after: tuple[str, str], limit: int
    ) -> list[tuple[str, HChannel]]:
        """Records of all hubs after a hub and channel, ordered by both."""

    async def add_user_subscription(self, hub: str, channel: str, user_id: str) -> bool:
        """Returns False if it existed."""

    async def delete_user_subscription(self, hub: str, channel: str, user_id: str) -> bool:
        """Returns whether it existed."""

    async def read_user_subscriptions(self, hub: str, user_id: str) -> list[str]:
        """The channels, sorted."""

    async def read_subscribed_users(self, hub: str, channel: str) -> list[str]:
        """The users, sorted."""

    async def delete_user_subscriptions_of(self, hub: str, user_id: str) -> int:
        """Returns how many were deleted."""
