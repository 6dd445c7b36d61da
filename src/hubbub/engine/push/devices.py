"""Devices of users, valid as long as the tokens with which they were registered."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.domain.permissions import Identity
from hubbub.domain.push.tokens import PushToken
from hubbub.engine.access.tokens import Tokens
from hubbub.ports.storage.push import PushStore


class PushDevices:
    """The devices of all users. Read them only through `of`, which drops invalid ones."""

    def __init__(self, store: PushStore, tokens: Tokens) -> None:
        self._store = store
        self._tokens = tokens

    async def of(self, hub: str, users: Sequence[str]) -> list[PushToken]:
        """The devices of these users, ordered by user, platform, token. Devices registered before
        their user's tokens were revoked are dropped: somebody else may hold them. Raises
        `StoreUnavailable`."""
        held = []
        for each in await self._store.read_push_tokens(hub, users):
            if self._is_revoked(each):
                await self._store.delete_push_token(
                    hub, each.platform, each.token, each.registered_at
                )
            else:
                held.append(each)
        return held

    def _is_revoked(self, device: PushToken) -> bool:
        registered_by = Identity(user_id=device.user_id, issued_at=device.registered_at)
        return self._tokens.revoked(registered_by, device.hub)
