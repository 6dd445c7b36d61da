"""Extracts the token of a request, and identifies the caller."""

from __future__ import annotations

import msgspec

from hubbub.domain.errors import NotAuthenticated, OriginRefused
from hubbub.domain.permissions import ANONYMOUS, Identity
from hubbub.engine.access.throttle import Caller
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node
from hubbub.gateways.http import ReceivedRequest, Target
from hubbub.gateways.origins import from_page

TOKEN_SUBPROTOCOL = "hubbub.token."  # noqa: S105
"""Browsers cannot set headers on a WebSocket: there the token is offered as a subprotocol."""


def token_of(request: ReceivedRequest, target: Target) -> str | None:
    """The token in the Authorization header, else in the query, else in the offered subprotocols.
    Raises `NotAuthenticated`, and `OriginRefused` if a web page sends a change with its token in
    the query."""
    in_header = bearer_of(request)
    if in_header is not None:
        return in_header
    in_query = target.first("token") or target.first("access_token")
    if in_query:
        check_token_in_address(request)
        return in_query
    for offered in offered_subprotocols(request):
        if offered.startswith(TOKEN_SUBPROTOCOL):
            return offered[len(TOKEN_SUBPROTOCOL) :]
    return None


def check_token_in_address(request: ReceivedRequest) -> None:
    """Raises `OriginRefused` if a web page sends a change with its token in the query."""
    if request.method not in (b"GET", b"HEAD") and from_page(request):
        raise OriginRefused(
            "a page must send its token in the Authorization header: one in the address may "
            "come from a form of any page"
        )


def bearer_of(request: ReceivedRequest) -> str | None:
    """The token of the Authorization header, if there is one. Raises `NotAuthenticated`."""
    authorization = request.headers.get(b"authorization")
    if authorization is None:
        return None
    scheme, _, token = authorization.decode("latin-1").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise NotAuthenticated("the Authorization header must be 'Bearer' and a token")
    return token.strip()


def offered_subprotocols(request: ReceivedRequest) -> list[str]:
    header = request.header(b"sec-websocket-protocol") or ""
    return [name.strip() for name in header.split(",") if name.strip()]


class _Sender(msgspec.Struct, eq=False):
    """The caller of requests with the same head, as far as the head determines it."""

    hub: str
    identity: Identity
    authenticated: bool
    key_changes: int
    """The number of key changes when the identity was verified."""
    address: str
    caller: Caller | None
    """The rate limit key of requests from the address."""


def recognize(request: ReceivedRequest, hub: Hub, node: Node) -> Identity | None:
    """`require_identity` for a head seen before: checks only what may have changed since. None: the
    head alone does not determine the caller."""
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


def identify(request: ReceivedRequest, target: Target, hub: Hub, node: Node) -> Identity:
    """The caller. Raises if the token is invalid instead of treating the caller as anonymous;
    raises `RateLimited`, and `HubNotFound` if the token is valid for a hub that does not exist."""
    token = token_of(request, target)
    if token is None:
        return ANONYMOUS
    identity = node.credentials.verify(token, hub.name, request.address)
    hub.proven = True
    if hub.missing is not None:
        raise hub.missing
    return identity


def require_identity(request: ReceivedRequest, target: Target, hub: Hub, node: Node) -> Identity:
    """Like `identify`, for calls that a hub without anonymous access refuses without a token. Each
    counts towards the rate limits of its caller."""
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


def require_known(request: ReceivedRequest, target: Target, hub: Hub, node: Node) -> Identity:
    """The caller of a protocol whose callbacks are not verified: requires a token, unless the hub
    has open topics. Permissions are checked per channel."""
    identity = identify(request, target, hub, node)
    if not hub.configuration.settings.open_topics:
        require_authenticated(identity, hub)
        if not identity.authenticated:
            raise NotAuthenticated(
                f"hub {hub.name!r} wants to know whose callback this is: send "
                "'Authorization: Bearer …' (`hubbub token` makes one)"
            )
    node.throttle.admit(hub.name, identity, request.address)
    return identity
