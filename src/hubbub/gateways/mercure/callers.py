"""Finds the token of a Mercure request, and identifies its caller."""

from __future__ import annotations

from typing import Any

from hubbub.domain.errors import NotAuthenticated, NotFound, OriginRefused
from hubbub.domain.mercure.callers import NOBODY, MercureCaller
from hubbub.domain.permissions import Identity
from hubbub.engine.hub import Hub
from hubbub.engine.mercure.credentials import Action
from hubbub.engine.mercure.service import Mercure
from hubbub.engine.node import Node
from hubbub.gateways.calls import HubRequest
from hubbub.gateways.credentials import bearer_of, check_token_in_address
from hubbub.gateways.http import ReceivedRequest, Target
from hubbub.gateways.origins import from_own_page, from_page

COOKIE = "mercureAuthorization"


def anyone(request: ReceivedRequest, target: Target, hub: Hub, node: Node) -> Identity:
    """Stands in for the usual check of a caller: the handlers of this door read the token
    themselves, which may be one that only Mercure knows."""
    if not node.feature(Mercure).enabled:
        raise NotFound("this server does not serve Mercure; its operator sets mercure.enabled")
    if hub.missing is not None:
        raise NotAuthenticated(f"hub {hub.name!r} wants a token of Mercure, or does not exist")
    return NOBODY.identity


def identify(node: Node, call: HubRequest[Any], action: Action) -> MercureCaller:
    """The caller by the header, else the parameter `authorization`, else the cookie. Raises the
    errors of a wrong token, and `OriginRefused` for a cookie that a foreign page may have sent, and
    for an update of a page with its token in the address."""
    request = call.request
    token = bearer_of(request)
    if not token:
        token = call.target.first("authorization")
        if token:
            check_token_in_address(request)
    if not token:
        token = _cookie(request)
        if token:
            _check_page(call, action)
    if not token:
        return NOBODY
    caller = node.feature(Mercure).credentials.verify(token, call.hub, request.address, action)
    node.throttle.admit(call.hub.name, caller.identity, request.address)
    return caller


def _cookie(request: ReceivedRequest) -> str | None:
    for pair in (request.header(b"cookie") or "").split(";"):
        name, _, value = pair.strip().partition("=")
        if name == COOKIE:
            return value.strip('"')
    return None


def _check_page(call: HubRequest[Any], action: Action) -> None:
    """A browser adds the cookie to the requests of any page: it counts only for pages whose origin
    the hub names, which `*` does not. Without `Origin`, the browser's other marks count. Raises
    `OriginRefused`."""
    request = call.request
    page = request.header(b"origin") or _origin_of(request.header(b"referer"))
    if page is not None:
        if not call.doors.names_origin(request, page, call.hub.name):
            raise OriginRefused(
                f"pages from {page[:100]!r} may not send the cookie {COOKIE}: add this origin to "
                f"the allowedOrigins of hub {call.hub.name!r}"
            )
        if b"origin" in request.headers:
            call.exchange.extra_headers += b"Access-Control-Allow-Credentials: true\r\n"
    elif action == "publish" or (from_page(request) and not from_own_page(request)):
        raise OriginRefused(
            "the request has a cookie and no `Origin` or `Referer` that names its page; send the "
            "token in the Authorization header"
        )


def _origin_of(referer: str | None) -> str | None:
    if not referer:
        return None
    scheme, _, rest = referer.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"
