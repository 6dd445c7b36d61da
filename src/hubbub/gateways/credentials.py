"""Where a request carries its token, and who that makes the caller."""

from __future__ import annotations

from hubbub.domain.errors import NotAuthenticated
from hubbub.domain.permissions import ANONYMOUS, Identity
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node
from hubbub.gateways.http import Request, Target

TOKEN_SUBPROTOCOL = "hubbub.token."  # noqa: S105
"""Browsers cannot set headers on a WebSocket: there the token is offered as a subprotocol."""


def token_of(request: Request, target: Target) -> str | None:
    """From the Authorization header, else the query, else the offered subprotocols."""
    in_header = bearer_of(request)
    if in_header is not None:
        return in_header
    in_query = target.first("token") or target.first("access_token")
    if in_query:
        return in_query
    for offered in offered_subprotocols(request):
        if offered.startswith(TOKEN_SUBPROTOCOL):
            return offered[len(TOKEN_SUBPROTOCOL) :]
    return None


def bearer_of(request: Request) -> str | None:
    """The token of the Authorization header, if there is one. Raises `NotAuthenticated`."""
    authorization = request.headers.get(b"authorization")
    if authorization is None:
        return None
    scheme, _, token = authorization.decode("latin-1").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise NotAuthenticated("the Authorization header must be 'Bearer' and a token")
    return token.strip()


def offered_subprotocols(request: Request) -> list[str]:
    header = request.header(b"sec-websocket-protocol") or ""
    return [name.strip() for name in header.split(",") if name.strip()]


def identify(request: Request, target: Target, hub: Hub, node: Node) -> Identity:
    """The caller. Raises where the token is bad, never falling back to less, `RateLimited`, and
    `HubNotFound` where the token is good for a hub that does not exist."""
    token = token_of(request, target)
    if token is None:
        return ANONYMOUS
    identity = node.credentials.verify(token, hub.name, request.address)
    if hub.missing is not None:
        raise hub.missing
    return identity


def require_identity(request: Request, target: Target, hub: Hub, node: Node) -> Identity:
    """The same, for calls that a hub without anonymous access does not take from just anyone. Each
    counts against the limits of its caller."""
    identity = identify(request, target, hub, node)
    require_authenticated(identity, hub)
    node.throttle.admit(hub.name, identity, request.address)
    return identity


def require_authenticated(identity: Identity, hub: Hub) -> None:
    if not identity.authenticated and not hub.configuration.settings.allow_anonymous:
        raise NotAuthenticated(
            f"hub {hub.name!r} wants a token, or does not exist: send 'Authorization: Bearer …' "
            "(`hubbub token` makes one)"
        )
