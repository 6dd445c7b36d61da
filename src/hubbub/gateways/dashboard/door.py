"""The door: which of the dashboard's paths is meant, and whether the request comes from its page.

The cookie alone opens nothing. A browser says of each request where it comes from
(`Sec-Fetch-Site`), which no script can change; a change also carries a header that no form can
send.
"""

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
from hubbub.gateways.dashboard.login import DashboardLogin, Proof
from hubbub.gateways.exchange import Exchange
from hubbub.gateways.http import Head, Request
from hubbub.gateways.outlet import Talk
from hubbub.gateways.static import StaticFile
from hubbub.ports.connection import Connection

SEGMENT = "dashboard"
HEADER = b"hubbub-dashboard"
_API = b"/dashboard/api/"
_READING = (b"GET", b"HEAD")
_OWN = (("login",), ("logout",), ("me",))
_NOT_FOR_SCRIPTS = (("login",), ("token", "refresh"))
"""Paths of the admin API whose answer is a token that the cookie is there to hide."""
_MAX_PROOF_BYTES = 20_000
_encode = msgspec.json.Encoder().encode


class About(msgspec.Struct, frozen=True):
    """What the page shows of the hub that serves it."""

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

    def handle(self, request: Request, segments: Sequence[str], exchange: Exchange) -> None:
        """`segments` are those behind `dashboard`. Raises `HubbubError`."""
        place = tuple(segments)
        if place[:1] == ("api",):
            self._call(request, place[1:], exchange)
        elif place in _OWN:
            check_page(request)
            self._serve_own(place[0], request, exchange)
        else:
            self._serve_file(request, place, exchange)

    # -- pages ----------------------------------------------------------------------------------

    def _serve_file(self, request: Request, place: Sequence[str], exchange: Exchange) -> None:
        """The page decides by itself what its other paths show."""
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

    def _serve_own(self, place: str, request: Request, exchange: Exchange) -> None:
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

    async def _log_in(self, request: Request, exchange: Exchange) -> None:
        hub, identity, token = await self._login.log_in(_proof(request), request.address)
        exchange.extra_headers += cookies.kept(token).encode()
        self._tell(exchange, _shown(hub, identity))

    async def _log_out(self, request: Request, exchange: Exchange) -> None:
        """The cookie is deleted also where its token was not valid."""
        token = cookies.token_in(request)
        exchange.extra_headers += cookies.forgotten().encode()
        if token is not None:
            await self._login.log_out(token, request.address)
        exchange.answer(204, b"", headers="Cache-Control: no-store\r\n")

    def _known(self, request: Request, exchange: Exchange) -> tuple[str, Identity, str]:
        """The hub, the identity and the token of the cookie, which is renewed before it ends.
        Raises `NotAuthenticated`, `InvalidToken`."""
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
    def _tell(exchange: Exchange, said: dict[str, Any]) -> None:
        exchange.answer(200, _encode(said), headers="Cache-Control: no-store\r\n")

    # -- live -----------------------------------------------------------------------------------

    def watching(self, request: Request) -> Callable[[Connection], Talk]:
        """Makes the session of who opens the dashboard's socket. Browsers send the cookie with
        sockets of every page: so the origin decides. Raises `OriginRefused`, `NotAuthenticated`,
        `InvalidToken`."""
        origin, host = request.header(b"origin") or "", request.header(b"host") or ""
        site = request.header(b"sec-fetch-site")
        if not host or origin.partition("://")[2] != host or site not in (None, "same-origin"):
            raise OriginRefused("only the dashboard's own page may watch here")
        token = cookies.token_in(request)
        if token is None:
            raise NotAuthenticated("log in at /dashboard first")
        hub, identity = self._login.identify(token, request.address)
        return lambda connection: self._login.watch(connection, hub, identity)

    # -- the admin API --------------------------------------------------------------------------

    def _call(self, request: Request, place: Sequence[str], exchange: Exchange) -> None:
        """The same request to the admin API, with the token of the cookie in place of any other.
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
        head = Head(request.method, b"/v1/admin/" + rest, headers, request.head.keep_alive)
        self._admin.handle(Request(head, request.body, request.address), exchange)


def check_page(request: Request) -> None:
    """Raises `OriginRefused` where another page than the dashboard's sent the request."""
    if request.header(b"sec-fetch-site") != "same-origin":
        raise OriginRefused("only the dashboard's own page may ask here; programs use /v1/admin")
    if request.method not in _READING and request.header(HEADER) != "1":
        raise OriginRefused("a change needs the header 'Hubbub-Dashboard: 1'")


def _proof(request: Request) -> Proof:
    if len(request.body) > _MAX_PROOF_BYTES:
        raise BadRequest(f"a login is at most {_MAX_PROOF_BYTES} bytes long")
    try:
        return msgspec.json.decode(request.body, type=Proof)
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
