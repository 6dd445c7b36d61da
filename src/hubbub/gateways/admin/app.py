"""The application that serves the table of routes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from hubbub.domain.errors import (
    BadRequest,
    Malformed,
    NotAuthenticated,
    NotPermitted,
    TooLarge,
)
from hubbub.domain.fields import whole_numbers
from hubbub.domain.permissions import ANONYMOUS, Identity, Level
from hubbub.engine.access.revocations import ANY_HUB
from hubbub.engine.administration import ANY_VERSION, Actor, Administration, Condition
from hubbub.engine.administration.viewers import check_viewed, for_viewers
from hubbub.gateways.admin_door import Response
from hubbub.gateways.http import WITHOUT_BODY, ReceivedRequest
from hubbub.gateways.routes import (
    Access,
    AdminRequest,
    AdminResponse,
    AnyRoute,
    Router,
)

_RANKS = {Level.CLIENT: 0, Level.SERVICE: 1, Level.ADMIN: 2}
_NEEDED = {Access.CLIENT: 0, Access.SERVICE: 1, Access.ADMIN: 2}
_TAGS = re.compile(r'(W/)?"([^"]*)"|\b(\d+)\b')
_encode = msgspec.json.Encoder().encode


class AdminApplication:
    """Decodes requests, calls their handlers, and encodes responses and errors."""

    def __init__(self, administration: Administration, routes: Sequence[AnyRoute]) -> None:
        self._administration = administration
        self._credentials = administration.node.credentials
        self._throttle = administration.node.throttle
        self._router = Router(
            [
                route
                for route in routes
                if route.handler is not None and route.access is not Access.HUB
            ]
        )

    async def respond(self, request: ReceivedRequest) -> Response:
        """Implements `gateways.admin_door.Application`. Raises `HubbubError`."""
        raw_path, _, query = request.url.partition(b"?")
        method = request.method.decode("latin-1")
        route, path = self._router.find(method, _segments(raw_path))
        answer = await self.answer(
            route, path, request.headers, query, request.body, request.address
        )
        return _response(answer, request.header(b"if-none-match") or "")

    async def answer(
        self,
        route: AnyRoute,
        path: Mapping[str, str],
        headers: Mapping[bytes, bytes],
        query_string: bytes,
        body: bytes,
        address: str = "",
    ) -> AdminResponse:
        """Authorises, decodes and executes a request of any transport. Raises `HubbubError`."""
        hub = path.get("hub", ANY_HUB)
        actor = await self._authenticate(route, hub, headers, address)
        self._throttle.admit(hub, actor.identity, address)
        if len(body) > route.max_body_bytes:
            raise TooLarge(f"the body is larger than {route.max_body_bytes} bytes")
        request: AdminRequest[Any, Any] = AdminRequest(
            actor=actor,
            path=path,
            query=_query(route, query_string),
            body=_decoded(route, body),
            raw=body,
            condition=_condition(route.method, headers) if route.versioned else ANY_VERSION,
            address=address,
        )
        assert route.handler is not None
        viewed = actor.identity.level is Level.VIEWER
        if viewed:
            query = msgspec.structs.asdict(request.query)
            query.pop("cursor", None)
            check_viewed((*path.values(), *query.values()))
        answer = route.respond(await route.handler(self._administration, request))
        if viewed and not isinstance(answer.value, bytes):
            shown = for_viewers(msgspec.to_builtins(answer.value))
            return msgspec.structs.replace(answer, value=shown)
        return answer

    async def _authenticate(
        self, route: AnyRoute, hub: str, headers: Mapping[bytes, bytes], address: str
    ) -> Actor:
        """The caller, if permitted. Tokens are accepted in the header only, since URLs end up in
        logs."""
        if route.access is Access.ANYONE:
            return Actor(ANONYMOUS)
        scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise NotAuthenticated("this needs a token: send 'Authorization: Bearer …'")
        identity = await self._credentials.verify_fetching(token.strip(), hub, address)
        _check_level(identity, route)
        return Actor(identity, token.strip())


def _check_level(identity: Identity, route: AnyRoute) -> None:
    if identity.level is Level.VIEWER and not route.viewable:
        raise NotPermitted("viewers look on: they change nothing, and messages are not for them")
    if identity.level is not Level.VIEWER and _RANKS[identity.level] < _NEEDED[route.access]:
        raise NotPermitted(
            f"this is for the level {route.access.value}; the token has {identity.level.value}"
        )


def _segments(raw_path: bytes) -> list[str]:
    try:
        return [unquote_to_bytes(part).decode() for part in raw_path.split(b"/")[1:]]
    except UnicodeDecodeError:
        raise Malformed("the path is not UTF-8") from None


def _query(route: AnyRoute, query_string: bytes) -> Any:
    """Decodes the parameters; unknown, repeated and invalid ones are refused by name."""
    try:
        pairs = parse_qsl(
            query_string.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(query_string),
            max_num_fields=50,
            errors="strict",
        )
    except ValueError as error:
        raise Malformed(f"the query cannot be read: {error}") from None
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BadRequest(f"the parameter `{twice}` is there twice")
    try:
        return msgspec.convert(values, route.query, strict=False)
    except msgspec.ValidationError as error:
        text = (
            str(error).replace("`$.", "`").replace("Object contains unknown field", "there is no")
        )
        raise BadRequest(f"in the query: {text}") from None


def _decoded(route: AnyRoute, body: bytes) -> Any:
    if route.body is None:
        if body:
            raise BadRequest("this request takes no body")
        return None
    if route.reads_itself:
        return body
    try:
        try:
            return msgspec.json.decode(body, type=route.body)
        except msgspec.ValidationError as error:
            plain = msgspec.json.encode(whole_numbers(msgspec.json.decode(body)))
            try:
                return msgspec.json.decode(plain, type=route.body)
            except msgspec.ValidationError:
                raise BadRequest(f"the body is not as it should be: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(f"the body is not JSON: {error}") from None
    except RecursionError:
        raise Malformed("the body is nested too deeply") from None


def _condition(method: str, headers: Mapping[bytes, bytes]) -> Condition:
    """The precondition in If-Match and If-None-Match. Raises `BadRequest`. For a read,
    If-None-Match only decides whether the body is sent."""
    match = headers.get(b"if-match")
    none_match = headers.get(b"if-none-match")
    if method == "GET" or (match is None and none_match is None):
        return ANY_VERSION
    if none_match is not None and none_match.strip() != b"*":
        raise BadRequest("If-None-Match is not '*', the only one that a change can mean")
    absent = none_match is not None
    if match is None or match.strip() == b"*":
        return Condition(exists=match is not None, absent=absent)
    return Condition(frozenset(_versions(match.decode("latin-1"))), absent=absent)


def _versions(header: str) -> Iterable[int]:
    """The versions among the tags; a weak or foreign tag never matches."""
    found = list(_TAGS.finditer(header))
    if not found or _TAGS.sub("", header).replace(",", "").strip():
        raise BadRequest("If-Match is not '*' or a list of tags such as \"3\"")
    for tag in found:
        text = tag.group(2) or tag.group(3) or ""
        if not tag.group(1) and text.isascii() and text.isdigit() and len(text) < 18:
            yield int(text)


def _response(answer: AdminResponse, none_match: str) -> Response:
    headers = "Cache-Control: no-store\r\n"
    status = answer.status
    if answer.version:
        tag = f'"{answer.version}"'
        headers += f"ETag: {tag}\r\n"
        if status == 200 and tag in none_match:
            status = 304
    if status in WITHOUT_BODY:
        return Response(status, b"", headers)
    value = answer.value
    return Response(status, value if isinstance(value, bytes) else _encode(value), headers)
