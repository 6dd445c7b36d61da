"""Devices of users, followings, and the credentials for push services."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from hubbub.domain.permissions import Reader
from hubbub.domain.push.tokens import PushToken
from hubbub.ports.storage.audited import Audited


class PushFollowing(msgspec.Struct, frozen=True):
    """A user receives pushes for a channel's messages marked `push`, subscribed or not."""

    hub: str
    channel: str
    user_id: str
    acting: Reader
    """The identity under which messages are read."""
    created_at: int
    """Milliseconds since 1970."""


class PushCredential(msgspec.Struct, frozen=True):
    """Credentials for a push service. `name` is `fcm`, `apns`, or `vapid:` and the key's id;
    `about` is JSON without secrets."""

    hub: str
    name: str
    sealed: bytes
    about: str
    created_at: int


class PushStore(Audited, Protocol):
    async def save_push_token(self, token: PushToken) -> None:
        """Creates or replaces by hub, platform and token; a token of another user of the hub moves
        to this one."""

    async def read_push_tokens(self, hub: str, users: Sequence[str]) -> list[PushToken]:
        """The tokens of these users, ordered by user, platform, token."""

    async def delete_push_token(
        self, hub: str, platform: str, token: str, registered_until: int | None = None
    ) -> bool:
        """With `registered_until`, spares a token registered later (ms since 1970)."""

    async def note_push_results(self, hub: str, tokens: Sequence[PushToken]) -> None:
        """Stores the successes and failures of tokens that were not registered again meanwhile."""

    async def save_following(self, following: PushFollowing, most: int) -> bool:
        """Creates or replaces by hub, channel and user. Returns False, without effect, if the user
        already follows `most` other channels."""

    async def read_followings(
        self, hub: str, channel: str, after_user: str, limit: int
    ) -> list[PushFollowing]:
        """Followings of a channel, ordered by user."""

    async def read_followings_of(self, hub: str, users: Sequence[str]) -> list[PushFollowing]:
        """Followings of users, ordered by user and channel."""

    async def list_followings(
        self, hub: str, after: tuple[str, str], limit: int
    ) -> list[PushFollowing]:
        """Followings of a hub after a channel and user, ordered by both."""

    async def delete_following(self, hub: str, channel: str, user_id: str) -> bool: ...

    async def delete_followings_of(self, hub: str, user_id: str) -> int: ...

    async def put_push_credential(self, credential: PushCredential) -> None:
        """Creates or replaces by hub and name."""

    async def add_first_credential(self, credential: PushCredential, prefix: str) -> bool:
        """Creates the credential unless the hub has one whose name begins with `prefix`. Returns
        whether it was created."""

    async def read_push_credentials(self, hub: str | None = None) -> list[PushCredential]:
        """Credentials of one hub or of all, ordered by hub, newest first."""

    async def delete_push_credential(self, hub: str, name: str) -> bool: ...
