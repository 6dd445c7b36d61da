"""Authentication: verifies a token or credentials and sets a session's identity, at connect or
later."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hubbub.domain.errors import BadRequest, HubbubError, NotAuthenticated
from hubbub.domain.names import user_channel
from hubbub.domain.notices import Authenticated, RestoreKey
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import Authenticate, SubscribeItem
from hubbub.engine.access.credentials import CredentialCheck
from hubbub.engine.access.throttle import Throttle
from hubbub.engine.access.tokens import IssuedToken, Tokens
from hubbub.engine.hub import Hub, SessionState
from hubbub.engine.limits import EngineLimits
from hubbub.engine.rooms import Room, implementing
from hubbub.engine.sessions.heartbeats import Heartbeats
from hubbub.engine.sessions.restore_keys import RestoreKeys
from hubbub.engine.sessions.subscriptions import Subscriptions
from hubbub.ports.authenticator import CREDENTIALS_REFUSED, Authenticator


class Authentication:
    def __init__(
        self,
        tokens: Tokens,
        credentials: CredentialCheck,
        throttle: Throttle,
        authenticator: Authenticator,
        limits: EngineLimits,
        subscriptions: Subscriptions,
        restore_keys: RestoreKeys,
        heartbeats: Heartbeats,
        rooms: Iterable[Room],
    ) -> None:
        """`rooms` are told of each session that has authenticated."""
        self._tokens = tokens
        self._credentials = credentials
        self._throttle = throttle
        self._authenticator = authenticator
        self._limits = limits
        self._subscriptions = subscriptions
        self._restore_keys = restore_keys
        self._heartbeats = heartbeats
        self._authenticated = implementing(rooms, Room.authenticated)

    async def authenticate(self, session: SessionState, request: Authenticate) -> None:
        """Responds with the new identity or the error. If the hub permits no anonymous sessions, a
        failure ends the session."""
        try:
            identity, token = await self._identify(session, request)
            if session.hub.missing is not None:
                raise session.hub.missing
        except HubbubError as error:
            session.send(Authenticated(req_id=request.req_id, error=error))
            if not session.hub.configuration.settings.allow_anonymous:
                session.connection.disconnect(error)
            return
        if session.closed:
            return
        session.hub.identify(session, identity)
        session.send(
            Authenticated(
                req_id=request.req_id,
                user_id=identity.user_id,
                token=token,
                grants=identity.grants,
                rpcs=identity.rpcs,
                extra=identity.extra,
                expires_at=identity.expires_at,
            )
        )
        await self.welcome(session)

    async def welcome(self, session: SessionState) -> None:
        """Applies a new identity: ends subscriptions that it does not permit, subscribes the
        session to its user channel, and issues a restore key."""
        self._heartbeats.authenticated(session)
        self._subscriptions.recheck(session)
        self._subscriptions.attendance.announce_identity(session)
        if session.hub.configuration.settings.session_restore:
            session.send(RestoreKey(self._restore_keys.issue(session)))
        if session.hub.user_channels and session.identity.user_id is not None:
            own = user_channel(session.identity.user_id)
            if own not in (session.feeds or ()):
                await self._subscriptions.subscribe_by_name(session, (SubscribeItem(own),))
        for authenticated in self._authenticated:
            await authenticated(session)

    async def _identify(self, session: SessionState, request: Authenticate) -> tuple[Identity, str]:
        if (request.token is None) == (request.credentials is None):
            raise BadRequest("Auth takes either a token or credentials")
        if request.token is not None:
            identity = await self._credentials.verify_fetching(
                request.token, session.hub.name, session.address
            )
            return identity, request.token
        assert request.credentials is not None
        identity, issued = await self.exchange(
            session.hub, session.id, session.address, request.credentials
        )
        proven = msgspec.structs.replace(
            identity, token_id=issued.token_id, issued_at=issued.issued_at
        )
        return proven, issued.token

    async def exchange(
        self, hub: Hub, session_id: str, address: str, credentials: bytes
    ) -> tuple[Identity, IssuedToken]:
        """A token for the user whose credentials the hub's auth provider accepts. Raises
        `NotAuthenticated`, `AuthProviderFailed` and `RateLimited`."""
        with self._throttle.guess(hub.name, address):
            identity = await self._ask_provider(hub, session_id, credentials)
        return identity, self._tokens.mint(hub.name, identity, self._limits.token_seconds)

    async def _ask_provider(self, hub: Hub, session_id: str, credentials: bytes) -> Identity:
        provider = hub.configuration.auth_provider()
        if provider is None:
            raise NotAuthenticated(CREDENTIALS_REFUSED)
        usable = hub.configuration.usable(provider, self._limits.subject_root)
        return await self._authenticator.authenticate(usable, hub.name, session_id, credentials)
