"""Where the public keys of foreign issuers come from."""

from __future__ import annotations

from typing import Protocol

from hubbub.domain.callbacks import Reach


class KeySource(Protocol):
    async def fetch(self, hub: str, url: str, reach: Reach) -> bytes:
        """The JWKS document at this address, of bounded size and in bounded time, for this hub.
        Raises `AuthProviderFailed`."""
