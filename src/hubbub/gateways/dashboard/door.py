"""Routes the dashboard's paths, and checks that requests come from its page.

The cookie alone is not sufficient. A browser marks each request with its origin (`Sec-Fetch-Site`),
which scripts cannot change; a change also needs a header that forms cannot send."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from hubbub.domain.errors import (
    BadRequest,
    HubbubError,
    Malformed,
    MethodNotAllowed,
    NotAuthenticated,
    NotFound,
    OriginRefused,
)
from hubbub.domain.permissions import Identity
from hubbub.gateways.admin_door import AdminDoor
from hubbub.gateways.dashboard import cookies
from hubbub.gateways.dashboard.login import DashboardLogin, LoginProof
from hubbub.gateways.dashboard.origin import SEGMENT
from hubbub.gateways.exchange import HttpExchange
from hubbub.gateways.http import ReceivedRequest, RequestHead
from hubbub.gateways.origins import from_own_page, from_page
from hubbub.gateways.outlet import Talk
from hubbub.gateways.static import StaticFile
from hubbub.ports.connection import Connection

HEADER = b"hubbub-dashboard"
_API = b"/dashboard/api/"
_READING = (b"GET", b"HEAD")
_OWN = (("login",), ("logout",), ("me",))
_NOT_FOR_SCRIPTS = (("login",), ("token", "refresh"))
"""Paths of the admin API that return tokens, which the cookie is meant to hide from scripts."""
_MAX_PROOF_BYTES = 20_000
_encode = msgspec.json.Encoder().encode


class About(msgspec.Struct, frozen=True):
    """Facts about the hub that the page shows."""

    version: str
    node: str
    developer: bool


class DashboardDoor:
    """Serves everything below `/dashboard`."""

    def __init__(
        self,
        login: DashboardLogin,
        admin: AdminDoor,
        files: Mapping[str, StaticFile],
        about: About,
    ) -> None:
        """`files` are by name; `index.html` is the page."""
        self._login = login
        self._admin = admin
        self._files = files
        self._about = about

    def handle(
        self, request: ReceivedRequest, segments: Sequence[str], exchange: HttpExchange
    ) -> None:
        """`segments` are those after `dashboard`. Raises `HubbubError`."""
        place = tuple(segments)
        if place[:1] == ("api",):
            self._call(request, place[1:], exchange)
        elif place in _OWN:
            check_page(request)
            self._serve_own(place[0], request, exchange)
        else:
            self._serve_file(request, place, exchange)

    # -- pages ----------------------------------------------------------------------------------

    def _serve_file(
        self, request: ReceivedRequest, place: Sequence[str], exchange: HttpExchange
    ) -> None:
        """Other paths get the page, which interprets them itself."""
        name = "/".join(place)
        file = self._files.get(name)
        if file is None and "." not in name:
            file = self._files.get("index.html")
        if file is None:
            missing = f"/{SEGMENT}/{name}"
            remedy = "" if self._files else "; this hub was built without it (`make web`)"
            raise NotFound(f"the dashboard has no file {missing}{remedy}")
        file.answer(request, exchange)

    # -- login ----------------------------------------------------------------------------------

    def _serve_own(self, place: str, request: ReceivedRequest, exchange: HttpExchange) -> None:
        if request.method in _READING and place == "login":
            self._tell(exchange, {**self._login.ways, **_json(self._about)})
        elif request.method in _READING and place == "me":
            hub, identity, _ = self._known(request, exchange)
            self._tell(exchange, {**_shown(hub, identity), **_json(self._about)})
        elif request.method == b"POST" and place == "login":
            exchange.complete(self._log_in(request, exchange))
        elif request.method == b"POST" and place == "logout":
            exchange.complete(self._log_out(request, exchange))
        else:
            allowed = {"me": ("GET", "HEAD"), "logout": ("POST",)}
            right = allowed.get(place, ("GET", "HEAD", "POST"))
            raise MethodNotAllowed(f"/dashboard/{place} is for {' and '.join(right)}", right)

    async def _log_in(self, request: ReceivedRequest, exchange: HttpExchange) -> None:
        hub, identity, token = await self._login.log_in(_proof(request), request.address)
        exchange.extra_headers += cookies.kept(token).encode()
        self._tell(exchange, _shown(hub, identity))

    async def _log_out(self, request: ReceivedRequest, exchange: HttpExchange) -> None:
        """Deletes the cookie even if its token is invalid."""
        token = cookies.token_in(request)
        exchange.extra_headers += cookies.forgotten().encode()
        if token is not None:
            await self._login.log_out(token, request.address)
        exchange.answer(204, b"", headers="Cache-Control: no-store\r\n")

    def _known(self, request: ReceivedRequest, exchange: HttpExchange) -> tuple[str, Identity, str]:
        """The hub, identity and token of the cookie, which is renewed before it expires. Raises
        `NotAuthenticated`, `InvalidToken`."""
        token = cookies.token_in(request)
        if token is None:
            raise NotAuthenticated("log in at /dashboard first")
        try:
            hub, identity = self._login.identify(token, request.address)
        except HubbubError as error:
            if not error.retry:
                exchange.extra_headers += cookies.forgotten().encode()
            raise
        renewed = self._login.renewed(hub, identity, token)
        if renewed is not None:
            exchange.extra_headers += cookies.kept(renewed).encode()
        return hub, identity, token

    @staticmethod
    def _tell(exchange: HttpExchange, said: dict[str, Any]) -> None:
        exchange.answer(200, _encode(said), headers="Cache-Control: no-store\r\n")

    # -- live -----------------------------------------------------------------------------------

    def watching(self, request: ReceivedRequest) -> Callable[[Connection], Talk]:
        """Creates the session for the dashboard's socket. Browsers send the cookie with sockets of
        every page, so the origin is checked. Raises `OriginRefused`, `NotAuthenticated`,
        `InvalidToken`."""
        site = request.header(b"sec-fetch-site")
        if b"origin" not in request.headers or not from_own_page(request) or site == "none":
            raise OriginRefused("only the dashboard's own page may watch here")
        token = cookies.token_in(request)
        if token is None:
            raise NotAuthenticated("log in at /dashboard first")
        hub, identity = self._login.identify(token, request.address)
        return lambda connection: self._login.watch(connection, hub, identity)

    # -- the admin API --------------------------------------------------------------------------

    def _call(self, request: ReceivedRequest, place: Sequence[str], exchange: HttpExchange) -> None:
        """Forwards the request to the admin API with the cookie's token instead of any other.
        Raises `HubbubError`."""
        check_page(request)
        rest = request.url[len(_API) :] if request.url.startswith(_API) else b""
        if place in _NOT_FOR_SCRIPTS:
            raise NotFound("the dashboard does not offer this path of the admin API")
        _, _, token = self._known(request, exchange)
        headers = {
            name: value
            for name, value in request.headers.items()
            if name not in (b"cookie", b"authorization")
        }
        headers[b"authorization"] = b"Bearer " + token.encode("latin-1")
        head = RequestHead(request.method, b"/v1/admin/" + rest, headers, request.head.keep_alive)
        self._admin.handle(ReceivedRequest(head, request.body, request.address), exchange)


def check_page(request: ReceivedRequest) -> None:
    """Raises `OriginRefused` if a page other than the dashboard sent the request."""
    if request.header(b"sec-fetch-site") != "same-origin" or not from_own_page(request):
        raise OriginRefused("only the dashboard's own page may ask here; programs use /v1/admin")
    if request.method not in _READING and request.header(HEADER) != "1":
        raise OriginRefused("a change needs the header 'Hubbub-Dashboard: 1'")


def check_admin_page(request: ReceivedRequest) -> None:
    """Raises `OriginRefused` if a request to the admin API may come from a page of another
    origin."""
    marked = from_page(request) or cookies.token_in(request) is not None
    if marked and not from_own_page(request):
        raise OriginRefused(
            "pages of other origins may not use the admin API; send the request from a program"
        )


def _proof(request: ReceivedRequest) -> LoginProof:
    if len(request.body) > _MAX_PROOF_BYTES:
        raise BadRequest(f"a login is at most {_MAX_PROOF_BYTES} bytes long")
    try:
        return msgspec.json.decode(request.body, type=LoginProof)
    except msgspec.ValidationError as error:
        raise BadRequest(f"the body is not a login: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"the body is not JSON: {error}") from None


def _shown(hub: str, identity: Identity) -> dict[str, Any]:
    return {
        "userID": identity.user_id,
        "level": identity.level.value,
        "hub": hub,
        "expiresAt": identity.expires_at,
    }


def _json(about: About) -> dict[str, Any]:
    return msgspec.structs.asdict(about)
