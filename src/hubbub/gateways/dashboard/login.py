"""Login and logout of the dashboard: exchanges a credential for a short-lived token."""

from __future__ import annotations

from typing import Any

import msgspec

from hubbub.domain.errors import BadRequest, HubbubError, InvalidToken, NotPermitted
from hubbub.domain.permissions import Identity, Level
from hubbub.engine.access.revocations import ANY_HUB
from hubbub.engine.access.tickets import Tickets
from hubbub.engine.administration import Actor, Administration
from hubbub.engine.administration.watching import Watcher
from hubbub.gateways.dashboard import cookies
from hubbub.gateways.origins import is_loopback
from hubbub.ports.connection import Connection

DEVELOPER = "developer"
"""The user id of a login by ticket."""


class LoginProof(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of: a token; the ticket in the link printed by the hub; credentials for `admin.url`."""

    token: str | None = None
    ticket: str | None = None
    credentials: msgspec.Raw = msgspec.Raw()


class DashboardLogin:
    def __init__(self, administration: Administration, tickets: Tickets | None) -> None:
        """`tickets` is None outside of developer mode."""
        self._administration = administration
        self._node = administration.node
        self._tickets = tickets

    @property
    def ways(self) -> dict[str, Any]:
        """The available ways to log in besides a token."""
        return {
            "password": self._administration.access.offers_login,
            "ticket": self._tickets is not None,
        }

    async def log_in(self, proof: LoginProof, address: str) -> tuple[str, Identity, str]:
        """The hub and identity, with a token for the cookie. Raises `BadRequest`, `RateLimited`,
        `InvalidToken`, `NotPermitted`, `NotAuthenticated`, `AuthProviderFailed`, and `NotFound` if
        login is not configured."""
        sent = bytes(proof.credentials)
        if (proof.token is not None) + (proof.ticket is not None) + bool(sent) != 1:
            raise BadRequest("give one of `token`, `ticket` and `credentials`")
        if sent:
            identity, _ = await self._administration.access.log_in(sent, address)
            return await self._enter(ANY_HUB, identity, note=False)
        if proof.ticket is not None:
            return await self._enter(ANY_HUB, self._redeemed(proof.ticket, address))
        hub, identity = self.identify(proof.token or "", address)
        if identity.parent_id is not None:
            # The token of a third cookie would name the second one only, and outlive the first.
            raise InvalidToken("this is the token of a cookie; log in with the one it was made for")
        return await self._enter(hub, identity)

    def _redeemed(self, ticket: str, address: str) -> Identity:
        self._node.throttle.log_in(address)
        if self._tickets is None or not is_loopback(_host(address)):
            raise InvalidToken("tickets are for this very machine, in developer mode")
        self._tickets.spend(ticket)
        return Identity(user_id=DEVELOPER, level=Level.ADMIN)

    async def _enter(
        self, hub: str, identity: Identity, note: bool = True
    ) -> tuple[str, Identity, str]:
        """The cookie's token contains only the identity and the hub, since cookies are small. It
        never outlives the credential, and is revoked with it."""
        if identity.level is Level.CLIENT:
            raise NotPermitted("the dashboard is for viewers, services and administrators")
        bare = Identity(
            user_id=identity.user_id,
            level=identity.level,
            expires_at=identity.expires_at,
            parent_id=identity.token_id,
        )
        issued = self._node.tokens.mint(hub, bare, cookies.SECONDS)
        entered = msgspec.structs.replace(
            bare,
            token_id=issued.token_id,
            issued_at=issued.issued_at,
            expires_at=issued.expires_at,
        )
        if note:
            await self._administration.audit.note(
                Actor(entered),
                "dashboard.login",
                hub,
                identity.user_id or "",
                after={"by": identity.token_id},
            )
        return hub, entered, issued.token

    def identify(self, token: str, address: str) -> tuple[str, Identity]:
        """The hub and identity of a token. Raises `InvalidToken`, `RateLimited`."""
        hub, identity = self._node.credentials.identify(token, address)
        if hub != ANY_HUB:
            self._node.directory.get(hub)
        return hub, identity

    def renewed(self, hub: str, identity: Identity, token: str) -> str | None:
        """A new token with the same id if the old one expires soon; else None. Logging out revokes
        both."""
        left = (identity.expires_at or 0) - self._node.clock.now()
        if left >= cookies.RENEWED_BELOW_SECONDS:
            return None
        try:
            return self._node.tokens.renew(token, hub, cookies.SECONDS).token
        except InvalidToken:
            return None  # the login itself has come to its end

    def watch(self, connection: Connection, hub: str, identity: Identity) -> Watcher:
        """Raises `NotPermitted`, and `TooManyChannels` if there are too many watchers."""
        if identity.level is Level.CLIENT:
            raise NotPermitted("the dashboard is for viewers, services and administrators")
        return self._administration.board.enter(connection, hub, identity)

    async def log_out(self, token: str, address: str) -> None:
        """Revokes the token. An invalid token is ignored."""
        try:
            hub, identity = self._node.credentials.identify(token, address)
        except HubbubError:
            return
        if identity.token_id is not None:
            access = self._administration.access
            await access.revoke(Actor(identity, token), hub, "token", identity.token_id)


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address
