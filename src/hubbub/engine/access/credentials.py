"""From a caller's token to an identity: the only way for doors, which counts what was wrong."""

from __future__ import annotations

from hubbub.domain.permissions import Identity
from hubbub.engine.access.throttle import Throttle
from hubbub.engine.access.tokens import ANY_HUB, Tokens


class Credentials:
    """A token that was found genuine before is never refused for what others at the same address
    try: only credentials that this node has not seen yet count as guesses. A genuine token that has
    expired or was revoked is no guess."""

    def __init__(self, tokens: Tokens, throttle: Throttle) -> None:
        self._tokens = tokens
        self._throttle = throttle

    def verify(self, token: str, hub: str, address: str) -> Identity:
        """Raises `RateLimited`, and what `Tokens.verify` raises."""
        if self._tokens.knows(token, hub):
            return self._tokens.verify(token, hub)
        with self._throttle.guess(hub, address, lambda: self._tokens.knows(token, hub)):
            return self._tokens.verify(token, hub)

    async def verify_fetching(self, token: str, hub: str, address: str) -> Identity:
        """As `verify`, and fetches the keys of a foreign issuer first where they are needed."""
        if self._tokens.knows(token, hub):
            return await self._tokens.verify_fetching(token, hub)
        with self._throttle.guess(hub, address, lambda: self._tokens.knows(token, hub)):
            return await self._tokens.verify_fetching(token, hub)

    def identify(self, token: str, address: str) -> tuple[str, Identity]:
        """The hub that a token was made for and who it speaks for. Raises `RateLimited`, and what
        `Tokens.identify` raises."""
        if self._tokens.knows(token, ANY_HUB):
            return self._tokens.identify(token)
        with self._throttle.guess(ANY_HUB, address, lambda: self._tokens.knows(token, ANY_HUB)):
            return self._tokens.identify(token)
