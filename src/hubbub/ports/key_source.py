"""Where the public keys of foreign issuers come from."""

from __future__ import annotations

from typing import Protocol


class KeySource(Protocol):
    async def fetch(self, url: str) -> bytes:
        """The JWKS document at this address, of bounded size and in bounded time. Raises
        `AuthProviderFailed`."""
