"""The actor of a change: an identity and its token."""

from __future__ import annotations

import msgspec

from hubbub.domain.permissions import Identity, Level

NOBODY = "(token without a user)"


class Actor(msgspec.Struct, frozen=True):
    """The caller of an administrative operation, with the token that authenticates it."""

    identity: Identity
    token: str = ""

    @property
    def name(self) -> str:
        return self.identity.user_id or NOBODY

    @property
    def is_admin(self) -> bool:
        return self.identity.level is Level.ADMIN

    @property
    def is_operator(self) -> bool:
        """Whether the caller administrates all hubs, and so may decide what the configuration file
        decides."""
        return self.is_admin and self.identity.all_hubs
