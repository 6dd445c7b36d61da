"""Channels with an owner, and subscriptions of users."""

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
        """Create the record, or put it in place of the one with the same owner; subscriptions of
        users of the hub who do not take part (any more) end with it. A record that the hub itself
        owns (`take_user_off_record`) gets the new owner. Without effect where the record is `owned`
        by somebody else, the hub already has `most` of them (`full`), or its new owner `share`."""

    async def take_user_off_record(
        self, hub: str, channel: str, user_id: str
    ) -> frozenset[UserInRecord]:
        """The user takes part no longer, and what the user owned belongs to the hub. Answers what
        the user was there."""

    async def read_channel_record(self, hub: str, channel: str) -> HChannel | None: ...

    async def read_channel_records(self, hub: str, channels: Sequence[str]) -> list[HChannel]:
        """Those that are there, ordered by channel."""

    async def list_channel_records(
        self, after: tuple[str, str], limit: int
    ) -> list[tuple[str, HChannel]]:
        """Those of all hubs with the hub of each, behind a hub and channel, ordered by both."""

    async def add_user_subscription(self, hub: str, channel: str, user_id: str) -> bool:
        """False where it was there."""

    async def delete_user_subscription(self, hub: str, channel: str, user_id: str) -> bool:
        """Whether it was there."""

    async def read_user_subscriptions(self, hub: str, user_id: str) -> list[str]:
        """The channels, in order."""

    async def read_subscribed_users(self, hub: str, channel: str) -> list[str]:
        """The users, in order."""

    async def delete_user_subscriptions_of(self, hub: str, user_id: str) -> int:
        """Answers how many there were."""
