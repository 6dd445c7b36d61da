"""Asking a hub's auth provider who a client is."""

from __future__ import annotations

from typing import Protocol

from hubbub.domain.permissions import Identity
from hubbub.domain.rules import AuthProvider


class Authenticator(Protocol):
    async def authenticate(
        self, provider: AuthProvider, hub: str, session_id: str, credentials: bytes
    ) -> Identity:
        """The identity that the provider vouches for.

        Raises `NotAuthenticated` if the provider says no, `AuthProviderFailed` if it is slow,
        down, or answers something else than the agreed form. Always ends within the provider's
        timeout.
        """
