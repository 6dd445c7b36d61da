"""The cookie of the dashboard: a short-lived token of the hub's own that no script can read.

Only the dashboard's door takes it. Everywhere else the hub knows headers alone, so that no page of
another origin can make a browser act for its user.
"""

from __future__ import annotations

from hubbub.gateways.http import Request

NAME = "__Host-hubbub"
SECONDS = 15 * 60
RENEWED_BELOW_SECONDS = 10 * 60
"""A cookie that ends sooner is renewed by the next request."""
_ATTRIBUTES = "Path=/; HttpOnly; Secure; SameSite=Strict"


def token_in(request: Request) -> str | None:
    """The token that the browser sent along; None where there is none."""
    for pair in (request.header(b"cookie") or "").split(";"):
        name, _, value = pair.strip().partition("=")
        if name == NAME:
            return value or None
    return None


def kept(token: str) -> str:
    """The header line that has the browser keep the token."""
    return f"Set-Cookie: {NAME}={token}; Max-Age={SECONDS}; {_ATTRIBUTES}\r\n"


def forgotten() -> str:
    return f"Set-Cookie: {NAME}=; Max-Age=0; {_ATTRIBUTES}\r\n"
