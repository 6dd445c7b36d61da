"""Where a request carries its token, and who that makes the caller."""

from __future__ import annotations

import msgspec

from hubbub.domain.errors import NotAuthenticated
from hubbub.domain.permissions import ANONYMOUS, Identity
from hubbub.engine.access.throttle import Caller
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


class _Sender(msgspec.Struct, eq=False):
    """Who sends requests with a head, as far as it follows from that head."""

    hub: str
    identity: Identity
    authenticated: bool
    key_changes: int
    """The state of the signing keys when the identity was proven."""
    address: str
    caller: Caller | None
    """As whom requests from the address are counted."""


def recognize(request: Request, hub: Hub, node: Node) -> Identity | None:
    """`require_identity` for a head that came before: only what can have changed since is looked
    at. None: the head alone does not tell."""
    sender, tokens = request.head.sender, node.tokens
    if (
        not isinstance(sender, _Sender)
        or sender.hub != hub.name
        or sender.key_changes != tokens.changes
        or hub.missing is not None
    ):
        return None
    identity = sender.identity
    tokens.check(identity, sender.hub)
    if not sender.authenticated:
        require_authenticated(identity, hub)
    if sender.address != request.address:
        sender.address = request.address
        sender.caller = node.throttle.caller(sender.hub, identity, request.address)
    if sender.caller is not None:
        node.throttle.admit_caller(sender.caller)
    return identity


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
    known = recognize(request, hub, node)
    if known is not None:
        return known
    identity = identify(request, target, hub, node)
    require_authenticated(identity, hub)
    caller = node.throttle.caller(hub.name, identity, request.address)
    if caller is not None:
        node.throttle.admit_caller(caller)
    if not identity.foreign:  # whom the hub trusts may change
        request.head.sender = _Sender(
            hub.name,
            identity,
            identity.authenticated,
            node.tokens.changes,
            request.address,
            caller,
        )
    return identity


def require_authenticated(identity: Identity, hub: Hub) -> None:
    if not identity.authenticated and not hub.configuration.settings.allow_anonymous:
        raise NotAuthenticated(
            f"hub {hub.name!r} wants a token, or does not exist: send 'Authorization: Bearer …' "
            "(`hubbub token` makes one)"
        )
