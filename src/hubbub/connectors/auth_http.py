"""Auth providers over HTTP: forwards a client's credentials and reads the verdict.

The provider gets a POST with the client's credentials as the body, untouched, and the headers
`Hubbub-Hub` and `Hubbub-Session` besides those that its settings name. It answers with JSON:

    {"success": true, "userID": "ann", "extra": {…}, "expiresIn": 3600,
     "channels": [{"channel": "room:*", "publish": true, "subscribe": true}],
     "rpcs": ["cart.*"]}

Anything else (another status, another form, too slow, too much) is a failure, never access.
"""

from __future__ import annotations

import asyncio

import aiohttp

from hubbub.connectors.http_posting import HttpPoster, header_safe
from hubbub.connectors.verdicts import (
    MAX_ANSWER_BYTES,
    Verdict,
    identity_of,
    read_verdict,
    too_large,
    too_slow,
)
from hubbub.domain.errors import AuthProviderFailed, NotAuthenticated
from hubbub.domain.permissions import Identity
from hubbub.domain.rules import AuthProvider
from hubbub.ports.authenticator import CREDENTIALS_REFUSED
from hubbub.ports.clock import Clock

_REFUSALS = (401, 403)


class HttpAuthenticator:
    """Keeps one pool of connections for all providers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._poster = HttpPoster()

    async def close(self) -> None:
        await self._poster.close()

    async def authenticate(
        self, provider: AuthProvider, hub: str, session_id: str, credentials: bytes
    ) -> Identity:
        try:
            async with asyncio.timeout(provider.timeout_seconds):
                verdict = await self._ask(provider, hub, session_id, credentials)
        except TimeoutError:
            raise too_slow(hub, provider.timeout_seconds) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise AuthProviderFailed(
                f"the auth provider of hub {hub!r} cannot be reached: {type(error).__name__}"
            ) from None
        return identity_of(hub, verdict, self._clock.now())

    async def _ask(
        self, provider: AuthProvider, hub: str, session_id: str, credentials: bytes
    ) -> Verdict:
        headers = {
            "Content-Type": "application/octet-stream",
            "Accept": "application/json",
            **provider.headers,
            "Hubbub-Hub": header_safe(hub),
            "Hubbub-Session": session_id,
        }
        posted = await self._poster.post(provider.url, credentials, headers, MAX_ANSWER_BYTES)
        if posted.body is None:
            raise too_large(hub)
        if posted.status in _REFUSALS:
            raise NotAuthenticated(CREDENTIALS_REFUSED)
        if posted.status != 200:
            raise AuthProviderFailed(
                f"the auth provider of hub {hub!r} answered with status {posted.status}"
            )
        return read_verdict(hub, posted.body)
