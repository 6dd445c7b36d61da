"""Devices of users, followings, and the credentials for push services."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from hubbub.domain.permissions import Reader
from hubbub.domain.push.tokens import PushToken


class PushFollowing(msgspec.Struct, frozen=True):
    """A user is pushed to when a channel has a message marked `push`, subscribed or not."""

    hub: str
    channel: str
    user_id: str
    acting: Reader
    """As whom."""
    created_at: int
    """Milliseconds since 1970."""


class PushCredential(msgspec.Struct, frozen=True):
    """What a push service must be shown. `name` is `fcm`, `apns`, or `vapid:` and the key's id;
    `about` is JSON that may be told."""

    hub: str
    name: str
    sealed: bytes
    about: str
    created_at: int


class PushStore(Protocol):
    async def save_push_token(self, token: PushToken) -> None:
        """Create or replace by hub, platform and token; a token that belonged to another user of
        the hub moves to this one."""

    async def read_push_tokens(self, hub: str, users: Sequence[str]) -> list[PushToken]:
        """Those of these users, ordered by user, platform, token."""

    async def delete_push_token(
        self, hub: str, platform: str, token: str, registered_until: int | None = None
    ) -> bool:
        """With `registered_until`, not one that was registered later (ms since 1970)."""

    async def note_push_results(self, hub: str, tokens: Sequence[PushToken]) -> None:
        """Keep what these say about successes and failures, of those that still are as they were
        registered."""

    async def save_following(self, following: PushFollowing, most: int) -> bool:
        """Create or replace by hub, channel and user. False, and without effect, where the user
        already follows `most` other channels."""

    async def read_followings(
        self, hub: str, channel: str, after_user: str, limit: int
    ) -> list[PushFollowing]:
        """Those of a channel, ordered by user."""

    async def read_followings_of(self, hub: str, users: Sequence[str]) -> list[PushFollowing]:
        """Those of users, ordered by user and channel."""

    async def list_followings(
        self, hub: str, after: tuple[str, str], limit: int
    ) -> list[PushFollowing]:
        """Those of a hub behind a channel and user, ordered by both."""

    async def delete_following(self, hub: str, channel: str, user_id: str) -> bool: ...

    async def delete_followings_of(self, hub: str, user_id: str) -> int: ...

    async def put_push_credential(self, credential: PushCredential) -> None:
        """Create or replace by hub and name."""

    async def add_first_credential(self, credential: PushCredential, prefix: str) -> bool:
        """Create it unless the hub has a credential whose name begins so. Whether it did."""

    async def read_push_credentials(self, hub: str | None = None) -> list[PushCredential]:
        """Those of one hub or of all, ordered by hub, then the newest first."""

    async def delete_push_credential(self, hub: str, name: str) -> bool: ...
