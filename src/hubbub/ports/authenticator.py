"""Asking a hub's auth provider who a client is."""

from __future__ import annotations

from typing import Protocol

from hubbub.domain.permissions import Identity
from hubbub.domain.rules import AuthProvider

CREDENTIALS_REFUSED = (
    "the credentials were refused; a hub without an auth provider takes tokens only"
)
"""The same for a hub with an auth provider that says no, one without a provider, and no hub."""


class Authenticator(Protocol):
    async def authenticate(
        self, provider: AuthProvider, hub: str, session_id: str, credentials: bytes
    ) -> Identity:
        """The identity that the provider vouches for.

        Raises `NotAuthenticated` if the provider says no, `AuthProviderFailed` if it is slow,
        down, or answers something else than the agreed form. Always ends within the provider's
        timeout.
        """
