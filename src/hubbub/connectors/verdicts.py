"""Answers of auth providers, decoded and checked: an answer that is not valid is a failure."""

from __future__ import annotations

from typing import Any

import msgspec

from hubbub.domain.errors import AuthProviderFailed, InvalidToken, NotAuthenticated
from hubbub.domain.permissions import Grant, Identity
from hubbub.ports.authenticator import CREDENTIALS_REFUSED

MAX_ANSWER_BYTES = 64 * 1024
MAX_EXPIRES_IN_SECONDS = 100 * 365 * 24 * 3600


class Verdict(msgspec.Struct, frozen=True):
    success: bool
    user_id: str | None = msgspec.field(name="userID", default=None)
    extra: dict[str, Any] = {}
    channels: tuple[Grant, ...] = ()
    rpcs: tuple[str, ...] = ()
    expires_in: float | None = msgspec.field(name="expiresIn", default=None)
    message: str | None = None


def read_verdict(hub: str, body: bytes) -> Verdict:
    """From JSON. Raises `AuthProviderFailed`."""
    try:
        return msgspec.json.decode(body, type=Verdict)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise unreadable(hub) from None


def unreadable(hub: str) -> AuthProviderFailed:
    return AuthProviderFailed(
        f"the auth provider of hub {hub!r} answered in a form that cannot be read"
    )


def too_slow(hub: str, seconds: float) -> AuthProviderFailed:
    return AuthProviderFailed(f"the auth provider of hub {hub!r} did not answer in {seconds:g} s")


def too_large(hub: str) -> AuthProviderFailed:
    return AuthProviderFailed(
        f"the auth provider of hub {hub!r} answered more than {MAX_ANSWER_BYTES} bytes"
    )


def identity_of(hub: str, verdict: Verdict, now: float) -> Identity:
    """Raises `NotAuthenticated`, `AuthProviderFailed`."""
    if not verdict.success:
        raise NotAuthenticated(verdict.message or CREDENTIALS_REFUSED)
    if not verdict.user_id:
        raise AuthProviderFailed(f"the auth provider of hub {hub!r} named no user")
    seconds = verdict.expires_in
    if seconds is not None and not 0 < seconds <= MAX_EXPIRES_IN_SECONDS:
        raise AuthProviderFailed(
            f"the auth provider of hub {hub!r} gave an expiresIn that is no time to come"
        )
    try:
        return Identity(
            user_id=verdict.user_id,
            grants=verdict.channels,
            rpcs=verdict.rpcs,
            extra=verdict.extra,
            expires_at=None if seconds is None else int(now + seconds),
        )
    except InvalidToken as error:
        raise AuthProviderFailed(
            f"the auth provider of hub {hub!r} gave an identity that cannot be used: "
            f"{error.message}"
        ) from None
