"""Tokens: issuing, renewing and revoking them; logins of administrators."""

from __future__ import annotations

import asyncio
from typing import Literal

import msgspec

from hubbub.domain.errors import BadRequest, NotFound, NotPermitted
from hubbub.domain.names import check_name, user_id_problem
from hubbub.domain.permissions import ANONYMOUS, Identity, Level
from hubbub.domain.rules import AuthProvider
from hubbub.engine.access.revocations import ANY_HUB, Revocations
from hubbub.engine.access.tokens import MAX_TOKEN_SECONDS, IssuedToken
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.audit import AuditLog
from hubbub.engine.node import Node
from hubbub.ports import randomness
from hubbub.ports.authenticator import Authenticator
from hubbub.ports.storage import Store
from hubbub.ports.storage.administration import Revocation

RevocationKind = Literal["token", "user", "hub"]


class LoginSettings(msgspec.Struct, frozen=True):
    """How administrators log in; without a provider there is no login."""

    provider: AuthProvider | None = None


class AccessAdministration:
    def __init__(
        self,
        node: Node,
        store: Store,
        revocations: Revocations,
        audit: AuditLog,
        authenticator: Authenticator,
        login: LoginSettings,
    ) -> None:
        self._node = node
        self._store = store
        self._revocations = revocations
        self._audit = audit
        self._authenticator = authenticator
        self._login = login

    # -- tokens ---------------------------------------------------------------------------------

    async def issue(
        self, actor: Actor, hub: str, identity: Identity, ttl_seconds: float | None
    ) -> IssuedToken:
        """Issues a token for a client or viewer of the hub; administrators may also issue one for a
        service."""
        self._node.directory.get(hub)
        if identity.level is Level.ADMIN:
            raise BadRequest("tokens of the level admin come from a login or from `hubbub token`")
        if identity.level is Level.SERVICE and not actor.is_admin:
            raise NotPermitted("only an administrator may give out tokens of the level service")
        if identity.user_id is None and identity.level is Level.CLIENT and not identity.grants:
            raise BadRequest("a client's token needs `userID` or `channels`")
        seconds = self._node.limits.token_seconds if ttl_seconds is None else ttl_seconds
        issued = self._node.tokens.mint(hub, identity, seconds)
        about = {
            "tokenID": issued.token_id,
            "level": identity.level.value,
            "expiresAt": issued.expires_at,
        }
        await self._audit.note(actor, "token.issue", hub, identity.user_id or "", after=about)
        return issued

    def renew(self, actor: Actor, hub: str) -> IssuedToken:
        """Returns a newer token for the caller's. Raises `InvalidToken`."""
        return self._node.tokens.renew(actor.token, hub, self._node.limits.token_seconds)

    async def exchange(
        self, hub: str, credentials: bytes, address: str
    ) -> tuple[Identity, IssuedToken]:
        """Exchanges credentials that the hub's auth provider verifies for a token. A hub that does
        not exist responds like one without a provider. Raises `NotAuthenticated`,
        `AuthProviderFailed` and `RateLimited`."""
        self._node.throttle.admit(hub, ANONYMOUS, address, 1)
        visited = self._node.visit(hub, address)
        return await self._node.authentication.exchange(
            visited, f"s{randomness.token_urlsafe(12)}", address, credentials
        )

    # -- revocation -----------------------------------------------------------------------------

    async def revoke(
        self, actor: Actor, hub: str, kind: RevocationKind, subject: str = ""
    ) -> Revocation:
        """Revokes these tokens and ends the sessions that used them. New tokens for the same user
        stay valid. `*` as the hub means all hubs."""
        if hub != ANY_HUB:
            check_name(hub, "hub")
            self._node.directory.get(hub)
        if not subject and kind != "hub":
            raise BadRequest(f"which {kind} is meant? It is not named")
        if kind != "hub" and (problem := user_id_problem(subject)):
            raise BadRequest(f"`subject` {problem}")
        now = int(self._node.clock.now() * 1000)
        until = now + MAX_TOKEN_SECONDS * 1000
        revocation = Revocation(hub, kind, subject if kind != "hub" else "", now, until)
        note = self._audit.entry(
            actor, "revocation.add", hub, subject, after={"kind": kind, "subject": subject}
        )
        await self._revocations.add(revocation, note)
        await asyncio.shield(self._node.directory.changed(hub))
        return revocation

    async def revocations(self, hub: str) -> list[Revocation]:
        return await self._store.read_revocations(hub, int(self._node.clock.now() * 1000))

    # -- administrators -------------------------------------------------------------------------

    @property
    def offers_login(self) -> bool:
        return self._login.provider is not None

    async def log_in(self, credentials: bytes, address: str) -> tuple[Identity, IssuedToken]:
        """Returns a token of the level admin for verified credentials. Raises `NotFound` if login
        is not configured, `RateLimited`, `NotAuthenticated`, `AuthProviderFailed`."""
        provider = self._login.provider
        if provider is None:
            raise NotFound(
                "administrators cannot log in here: set admin.url, or make a token with "
                "`hubbub token --level admin --hub '*'`"
            )
        self._node.throttle.log_in(address)
        found = await self._authenticator.authenticate(provider, ANY_HUB, "", credentials)
        identity = Identity(user_id=found.user_id, level=Level.ADMIN, expires_at=found.expires_at)
        seconds = self._node.limits.token_seconds
        issued = self._node.tokens.mint(ANY_HUB, identity, seconds)
        actor = Actor(msgspec.structs.replace(identity, token_id=issued.token_id))
        await self._audit.note(actor, "admin.login", ANY_HUB, identity.user_id or "")
        return identity, issued
