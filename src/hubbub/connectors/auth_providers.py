"""Auth providers: a client's credentials are forwarded, and the verdict is read.

A provider over HTTP gets a POST with the client's credentials as the body, untouched, and the
headers `Hubbub-Hub` and `Hubbub-Session` besides those that its settings name. The answer is JSON:

    {"success": true, "userID": "ann", "extra": {…}, "expiresIn": 3600,
     "channels": [{"channel": "room:*", "publish": true, "subscribe": true}],
     "rpcs": ["cart.*"]}

A provider over NATS gets a `ProviderRequest` on its subject, and answers with a `ProviderAnswer` or
with the same JSON. Anything else (another status, another form, too slow, too much) is a failure,
never access.
"""

from __future__ import annotations

from typing import Any

import msgspec
from google.protobuf.message import DecodeError

from hubbub.connectors.http_posting import header_safe, post
from hubbub.domain.errors import AuthProviderFailed, BadRequest, InvalidToken, NotAuthenticated
from hubbub.domain.permissions import Grant, Identity
from hubbub.domain.rules import NATS_SCHEME, AuthProvider
from hubbub.ports.authenticator import CREDENTIALS_REFUSED
from hubbub.ports.broker import Broker, NobodyThere
from hubbub.ports.clock import Clock
from hubbub.ports.outgoing import Outgoing, SendFailed
from hubbub.protocols import hubbub_pb2 as pb

MAX_ANSWER_BYTES = 64 * 1024
MAX_EXPIRES_IN_SECONDS = 100 * 365 * 24 * 3600
NO_NATS = "this hub is not connected to NATS; set broker.host, or use a URL"
_REFUSALS = (401, 403)
_JSON = b"{"
"""The first byte of JSON; a `ProviderAnswer` never begins with it."""
_TOO_LARGE = f"answered more than {MAX_ANSWER_BYTES} bytes"


class ProviderAnswer(msgspec.Struct, frozen=True):
    success: bool
    user_id: str | None = msgspec.field(name="userID", default=None)
    extra: dict[str, Any] = {}
    channels: tuple[Grant, ...] = ()
    rpcs: tuple[str, ...] = ()
    expires_in: float | None = msgspec.field(name="expiresIn", default=None)
    message: str | None = None


class _Failed(Exception):
    """The provider failed; the message completes a sentence about it."""


class AuthProviders:
    """Implements `ports.authenticator.Authenticator`. `broker`: None without NATS."""

    def __init__(self, outgoing: Outgoing, clock: Clock, broker: Broker | None) -> None:
        self._outgoing = outgoing
        self._clock = clock
        self._broker = broker

    async def authenticate(
        self, provider: AuthProvider, hub: str, session_id: str, credentials: bytes
    ) -> Identity:
        over_nats = provider.url.startswith(NATS_SCHEME)
        ask = self._ask_over_nats if over_nats else self._ask_over_http
        try:
            verdict = await ask(provider, hub, session_id, credentials)
            return _identity_of(verdict, self._clock.now())
        except _Failed as failed:
            why = str(failed)
        except TimeoutError:
            why = f"did not answer in {provider.timeout_seconds:g} s"
        raise AuthProviderFailed(f"the auth provider of hub {hub!r} {why}")

    async def _ask_over_http(
        self, provider: AuthProvider, hub: str, session_id: str, credentials: bytes
    ) -> ProviderAnswer:
        headers = {
            "Content-Type": "application/octet-stream",
            "Accept": "application/json",
            **provider.headers,
            "Hubbub-Hub": header_safe(hub),
            "Hubbub-Session": session_id,
        }
        seconds = provider.timeout_seconds
        request = post(hub, provider.url, credentials, headers, seconds, MAX_ANSWER_BYTES)
        try:
            posted = await self._outgoing.send("auth", request, provider.addresses or "public")
        except SendFailed as error:
            if error.word == "timeout":
                raise TimeoutError from None
            too_large = error.word == "too_large"
            raise _Failed(_TOO_LARGE if too_large else f"cannot be reached: {error.word}") from None
        except BadRequest:
            raise _Failed("cannot be reached: its URL cannot be used") from None
        if posted.status in _REFUSALS:
            raise NotAuthenticated(CREDENTIALS_REFUSED)
        if posted.status != 200:
            raise _Failed(f"answered with status {posted.status}")
        return _read_json(posted.body)

    async def _ask_over_nats(
        self, provider: AuthProvider, hub: str, session_id: str, credentials: bytes
    ) -> ProviderAnswer:
        if self._broker is None:
            raise _Failed(f"cannot be asked: {NO_NATS}")
        request = pb.ProviderRequest(
            hub_id=hub, session_id=session_id, credentials=credentials, headers=provider.headers
        )
        subject, seconds = provider.url.removeprefix(NATS_SCHEME), provider.timeout_seconds
        try:
            async with self._outgoing.slot(hub, "auth", provider.url, seconds) as left:
                reply = await self._broker.request(subject, request.SerializeToString(), left)
        except NobodyThere as error:
            raise _Failed(f"cannot be reached: {error}") from None
        if len(reply.data) > MAX_ANSWER_BYTES:
            raise _Failed(_TOO_LARGE)
        is_json = reply.data.lstrip()[:1] == _JSON
        return _read_json(reply.data) if is_json else _read_protobuf(reply.data)


def _read_json(answer: bytes) -> ProviderAnswer:
    try:
        return msgspec.json.decode(answer, type=ProviderAnswer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _Failed("answered in a form that cannot be read") from None


def _read_protobuf(answer: bytes) -> ProviderAnswer:
    try:
        proto = pb.ProviderAnswer.FromString(answer)
        extra = msgspec.json.decode(proto.extra or b"{}", type=dict[str, object])
    except (DecodeError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _Failed("answered in a form that cannot be read") from None
    return ProviderAnswer(
        success=proto.success,
        user_id=proto.user_id,
        extra=extra,
        channels=tuple(Grant(c.channel, c.publish, c.subscribe) for c in proto.channels),
        rpcs=tuple(proto.rpcs),
        expires_in=proto.expires_in or None,
        message=proto.message or None,
    )


def _identity_of(verdict: ProviderAnswer, now: float) -> Identity:
    """Raises `NotAuthenticated` if the provider rejects the credentials."""
    if not verdict.success:
        raise NotAuthenticated(verdict.message or CREDENTIALS_REFUSED)
    if not verdict.user_id:
        raise _Failed("named no user")
    seconds = verdict.expires_in
    if seconds is not None and not 0 < seconds <= MAX_EXPIRES_IN_SECONDS:
        raise _Failed("gave an expiresIn that is no time to come")
    try:
        return Identity(
            user_id=verdict.user_id,
            grants=verdict.channels,
            rpcs=verdict.rpcs,
            extra=verdict.extra,
            expires_at=None if seconds is None else int(now + seconds),
        )
    except InvalidToken as error:
        raise _Failed(f"gave an identity that cannot be used: {error.message}") from None
