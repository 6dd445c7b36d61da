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
import re
from typing import Any

import aiohttp
import msgspec

from hubbub.connectors.http_posting import HttpPoster, header_safe
from hubbub.domain.errors import AuthProviderFailed, NotAuthenticated
from hubbub.domain.permissions import Grant, Identity
from hubbub.domain.rules import AuthProvider
from hubbub.ports.clock import Clock

MAX_ANSWER_BYTES = 64 * 1024
MAX_USER_ID_CHARS = 253
"""So that `u:<user id>` is still the name of a channel."""
MAX_EXPIRES_IN_SECONDS = 100 * 365 * 24 * 3600
_USER_ID = re.compile(f"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{{1,{MAX_USER_ID_CHARS}}}")
_REFUSALS = (401, 403)


class _Verdict(msgspec.Struct, frozen=True):
    success: bool
    user_id: str | None = msgspec.field(name="userID", default=None)
    extra: dict[str, Any] = {}
    channels: tuple[Grant, ...] = ()
    rpcs: tuple[str, ...] = ()
    expires_in: float | None = msgspec.field(name="expiresIn", default=None)
    message: str | None = None


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
                status, body = await self._post(provider, hub, session_id, credentials)
        except TimeoutError:
            raise AuthProviderFailed(
                f"the auth provider of hub {hub!r} did not answer in {provider.timeout_seconds:g} s"
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise AuthProviderFailed(
                f"the auth provider of hub {hub!r} cannot be reached: {type(error).__name__}"
            ) from None
        return self._identity(_verdict(hub, status, body))

    async def _post(
        self, provider: AuthProvider, hub: str, session_id: str, credentials: bytes
    ) -> tuple[int, bytes]:
        headers = {
            "Content-Type": "application/octet-stream",
            "Accept": "application/json",
            **provider.headers,
            "Hubbub-Hub": header_safe(hub),
            "Hubbub-Session": session_id,
        }
        posted = await self._poster.post(provider.url, credentials, headers, MAX_ANSWER_BYTES)
        if posted.body is None:
            raise AuthProviderFailed(
                f"the auth provider of hub {hub!r} answered more than {MAX_ANSWER_BYTES} bytes"
            )
        return posted.status, posted.body

    def _identity(self, verdict: _Verdict) -> Identity:
        expires_at = None
        if verdict.expires_in is not None:
            expires_at = int(self._clock.now() + verdict.expires_in)
        return Identity(
            user_id=verdict.user_id,
            grants=verdict.channels,
            rpcs=verdict.rpcs,
            extra=verdict.extra,
            expires_at=expires_at,
        )


def _verdict(hub: str, status: int, body: bytes) -> _Verdict:
    if status in _REFUSALS:
        raise NotAuthenticated("the credentials were refused")
    if status != 200:
        raise AuthProviderFailed(f"the auth provider of hub {hub!r} answered with status {status}")
    try:
        verdict = msgspec.json.decode(body, type=_Verdict)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise AuthProviderFailed(
            f"the auth provider of hub {hub!r} answered in a form that cannot be read"
        ) from None
    if not verdict.success:
        raise NotAuthenticated(verdict.message or "the credentials were refused")
    if not verdict.user_id:
        raise AuthProviderFailed(f"the auth provider of hub {hub!r} named no user")
    if not _USER_ID.fullmatch(verdict.user_id):
        raise AuthProviderFailed(
            f"the auth provider of hub {hub!r} named a user with more than {MAX_USER_ID_CHARS} "
            "characters or with control characters"
        )
    if verdict.expires_in is not None and not 0 < verdict.expires_in <= MAX_EXPIRES_IN_SECONDS:
        raise AuthProviderFailed(
            f"the auth provider of hub {hub!r} gave an expiresIn that is no time to come"
        )
    return verdict
