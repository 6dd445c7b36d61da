"""The cookie of the dashboard: a short-lived token of the hub that scripts cannot read.

Only the dashboard's paths accept it. Elsewhere the hub accepts tokens from headers only, so that no
page of another origin can make a browser act for its user."""

from __future__ import annotations

from hubbub.gateways.http import ReceivedRequest

NAME = "__Host-hubbub"
SECONDS = 15 * 60
RENEWED_BELOW_SECONDS = 10 * 60
"""A cookie that expires sooner is renewed by the next request."""
_ATTRIBUTES = "Path=/; HttpOnly; Secure; SameSite=Strict"


def token_in(request: ReceivedRequest) -> str | None:
    """The token in the request's cookie; None if there is none."""
    for pair in (request.header(b"cookie") or "").split(";"):
        name, _, value = pair.strip().partition("=")
        if name == NAME:
            return value or None
    return None


def kept(token: str) -> str:
    """The header line that sets the cookie."""
    return f"Set-Cookie: {NAME}={token}; Max-Age={SECONDS}; {_ATTRIBUTES}\r\n"


def forgotten() -> str:
    return f"Set-Cookie: {NAME}=; Max-Age=0; {_ATTRIBUTES}\r\n"
