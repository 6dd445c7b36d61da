"""The port to a hub's auth provider."""

from __future__ import annotations

from typing import Protocol

from hubbub.domain.permissions import Identity
from hubbub.domain.rules import AuthProvider

CREDENTIALS_REFUSED = (
    "the credentials were refused; a hub without an auth provider takes tokens only"
)
"""The same message whether the hub's auth provider rejects the credentials, the hub has no
provider, or the hub does not exist."""


class Authenticator(Protocol):
    async def authenticate(
        self, provider: AuthProvider, hub: str, session_id: str, credentials: bytes
    ) -> Identity:
        """Returns the identity that the provider confirms.

        Raises `NotAuthenticated` if the provider rejects the credentials, `AuthProviderFailed` if
        it is slow, unreachable, or responds in an invalid format. Always ends within the provider's
        timeout.
        """
