"""Auth providers over HTTP: forwards a client's credentials and reads the verdict.

The provider gets a POST with the client's credentials as the body, untouched, and the headers
`Hubbub-Hub` and `Hubbub-Session` besides those that its settings name. It answers with JSON:

    {"success": true, "userID": "ann", "extra": {…}, "expiresIn": 3600,
     "channels": [{"channel": "room:*", "publish": true, "subscribe": true}],
     "rpcs": ["cart.*"]}

Anything else (another status, another form, too slow, too much) is a failure, never access.
"""

from __future__ import annotations

from hubbub.connectors.http_posting import header_safe, post, reach_of
from hubbub.connectors.verdicts import (
    MAX_ANSWER_BYTES,
    Verdict,
    identity_of,
    read_verdict,
    too_large,
    too_slow,
)
from hubbub.domain.errors import AuthProviderFailed, BadRequest, NotAuthenticated
from hubbub.domain.permissions import Identity
from hubbub.domain.rules import AuthProvider
from hubbub.ports.authenticator import CREDENTIALS_REFUSED
from hubbub.ports.clock import Clock
from hubbub.ports.outgoing import Outgoing, SendFailed

_REFUSALS = (401, 403)


class HttpAuthenticator:
    """Implements `ports.authenticator.Authenticator`."""

    def __init__(self, outgoing: Outgoing, clock: Clock) -> None:
        self._outgoing = outgoing
        self._clock = clock

    async def authenticate(
        self, provider: AuthProvider, hub: str, session_id: str, credentials: bytes
    ) -> Identity:
        try:
            verdict = await self._ask(provider, hub, session_id, credentials)
        except SendFailed as error:
            if error.word == "timeout":
                raise too_slow(hub, provider.timeout_seconds) from None
            if error.word == "too_large":
                raise too_large(hub) from None
            raise _unreachable(hub, error.word) from None
        except BadRequest:
            raise _unreachable(hub, "its URL cannot be used") from None
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
        seconds = provider.timeout_seconds
        request = post(hub, provider.url, credentials, headers, seconds, MAX_ANSWER_BYTES)
        posted = await self._outgoing.send("auth", request, reach_of(provider.addresses))
        if posted.status in _REFUSALS:
            raise NotAuthenticated(CREDENTIALS_REFUSED)
        if posted.status != 200:
            raise AuthProviderFailed(
                f"the auth provider of hub {hub!r} answered with status {posted.status}"
            )
        return read_verdict(hub, posted.body)


def _unreachable(hub: str, reason: str) -> AuthProviderFailed:
    return AuthProviderFailed(f"the auth provider of hub {hub!r} cannot be reached: {reason}")
