"""Verifies callers' tokens for all gateways, and counts failures."""

from __future__ import annotations

from hubbub.domain.permissions import Identity
from hubbub.engine.access.throttle import Throttle
from hubbub.engine.access.tokens import ANY_HUB, Tokens


class CredentialCheck:
    """Only credentials unknown to this node count as guesses: a token that was verified before is
    not refused because of other callers at its address. A genuine token that expired or was revoked
    is no guess."""

    def __init__(self, tokens: Tokens, throttle: Throttle) -> None:
        self._tokens = tokens
        self._throttle = throttle

    def verify(self, token: str, hub: str, address: str) -> Identity:
        """Raises `RateLimited`, and the errors of `Tokens.verify`."""
        if self._tokens.knows(token, hub):
            return self._tokens.verify(token, hub)
        with self._throttle.guess(hub, address, lambda: self._tokens.knows(token, hub)):
            return self._tokens.verify(token, hub)

    async def verify_fetching(self, token: str, hub: str, address: str) -> Identity:
        """Like `verify`, but first fetches a foreign issuer's keys if necessary."""
        if self._tokens.knows(token, hub):
            return await self._tokens.verify_fetching(token, hub)
        with self._throttle.guess(hub, address, lambda: self._tokens.knows(token, hub)):
            return await self._tokens.verify_fetching(token, hub)

    def identify(self, token: str, address: str) -> tuple[str, Identity]:
        """The token's hub and identity. Raises `RateLimited`, and the errors of
        `Tokens.identify`."""
        if self._tokens.knows(token, ANY_HUB):
            return self._tokens.identify(token)
        with self._throttle.guess(ANY_HUB, address, lambda: self._tokens.knows(token, ANY_HUB)):
            return self._tokens.identify(token)
