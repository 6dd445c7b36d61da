"""The port to the public keys of external issuers."""

from __future__ import annotations

from typing import Protocol

from hubbub.domain.callbacks import Reach


class KeySource(Protocol):
    async def fetch(self, hub: str, url: str, reach: Reach) -> bytes:
        """Fetches the JWKS document at this URL for this hub, with bounded size and time. Raises
        `AuthProviderFailed`."""
