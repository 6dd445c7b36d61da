"""Signed tokens: identities with their permissions, verified once and then cached."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import jwt
import msgspec

from hubbub.domain.errors import BadRequest, InvalidToken, TooLarge
from hubbub.domain.permissions import Grant, Identity, Level
from hubbub.engine.access.issuers import Issuers, KeysNeeded
from hubbub.engine.access.revocations import ANY_HUB, Revocations
from hubbub.ports import randomness
from hubbub.ports.clock import Clock

__all__ = ["ANY_HUB", "IssuedToken", "KeyRing", "SigningKey", "Tokens"]

MAX_TOKEN_SECONDS = 10 * 365 * 24 * 3600
RENEWABLE_SECONDS = 7 * 24 * 3600.0
_REMEMBERED_TOKENS = 20_000
_MAX_TOKEN_CHARS = 16 * 1024
_REREAD_SECONDS = 1.0


class SigningKey(msgspec.Struct, frozen=True):
    """A secret with a name: keys can be rotated while older tokens stay valid."""

    id: str
    """The `kid` of the tokens that it signs."""
    secret: bytes

    def __repr__(self) -> str:
        return f"SigningKey(id={self.id!r}, secret=hidden)"


class KeyRing(msgspec.Struct, frozen=True):
    """The keys for session tokens and for administrators' tokens; the first of each signs."""

    session: tuple[SigningKey, ...]
    admin: tuple[SigningKey, ...]


class IssuedToken(msgspec.Struct, frozen=True):
    """A new token and its properties. Times are in seconds, `issued_at` in ms."""

    token: str
    token_id: str
    issued_at: int
    expires_at: int


class _Claims(msgspec.Struct, frozen=True, omit_defaults=True):
    """The claims of a token. `hub` is a hub's id, or '*' for an administrator of all hubs. Until
    `renewable_until` the token can be exchanged for a newer one."""

    hub: str
    exp: int
    iat: float = 0
    sub: str | None = None
    jti: str | None = None
    level: Level = Level.CLIENT
    channels: tuple[Grant, ...] = ()
    rpcs: tuple[str, ...] = ()
    extra: dict[str, Any] = {}
    renewable_until: int = 0
    parent: str | None = None


class _Verified(msgspec.Struct, frozen=True):
    hub: str
    identity: Identity
    renewable_until: int


class Tokens:
    """Issues and verifies the hub's own tokens. The first key signs; all keys verify.

    Tokens of administrators and tokens for all hubs are signed with the admin keys, all others with
    the session keys: a holder of one key cannot create tokens of the other kind."""

    def __init__(
        self,
        *,
        session_keys: Sequence[SigningKey],
        admin_keys: Sequence[SigningKey],
        issuer: str,
        clock: Clock,
        algorithm: str = "HS256",
        renewable_seconds: float = RENEWABLE_SECONDS,
        revocations: Revocations | None = None,
        issuers: Issuers | None = None,
        read_keys: Callable[[], KeyRing | None] | None = None,
    ) -> None:
        """`read_keys` is called when a token names an unknown key, which may be new. It returns
        None if the keys cannot be read."""
        self._keys = KeyRing(tuple(session_keys), tuple(admin_keys))
        self._issuer = issuer
        self._clock = clock
        self._algorithm = algorithm
        self._renewable_seconds = renewable_seconds
        self._revocations = revocations
        self._issuers = issuers
        self._read_keys = read_keys
        self._reread_at = float("-inf")
        self._verified: dict[bytes, _Verified] = {}
        self.changes = 0
        """The number of changes of the keys; earlier cached verifications are invalid."""

    @property
    def sealing_keys(self) -> tuple[SigningKey, ...]:
        """The keys from which the keys for secrets at rest are derived, the newest first."""
        return self._keys.admin

    # -- issuing --------------------------------------------------------------------------------

    def issue(self, hub: str, identity: Identity, ttl_seconds: float) -> str:
        return self.mint(hub, identity, ttl_seconds).token

    def mint(self, hub: str, identity: Identity, ttl_seconds: float) -> IssuedToken:
        """A token for this identity, which never outlives it. Raises `BadRequest`."""
        until = self._clock.now() + self._renewable_seconds
        if identity.expires_at is not None:
            until = identity.expires_at
        return self._sign(hub, identity, ttl_seconds, identity.expires_at, int(until))

    def renew(self, token: str, hub: str, ttl_seconds: float) -> IssuedToken:
        """A newer token for the same identity, until a limit after the first one. It keeps the
        token's id, so that revoking either revokes both. Raises `InvalidToken`."""
        identity = self.verify(token, hub)
        known = self._verified.get(_digest(token))
        now = self._clock.now()
        if known is None or identity.foreign:
            raise InvalidToken("this token is renewed where it was issued, not here")
        if known.renewable_until <= now:
            raise InvalidToken("the token can no longer be renewed; authenticate again")
        return self._sign(
            known.hub,
            identity,
            ttl_seconds,
            known.renewable_until,
            known.renewable_until,
            identity.token_id,
        )

    def _sign(
        self,
        hub: str,
        identity: Identity,
        ttl_seconds: float,
        latest: int | None,
        renewable_until: int,
        token_id: str | None = None,
    ) -> IssuedToken:
        if not 0 < ttl_seconds <= MAX_TOKEN_SECONDS:
            raise BadRequest(f"a token is valid for 1 to {MAX_TOKEN_SECONDS} seconds")
        now = self._clock.now()
        expires_at = int(now + ttl_seconds)
        if latest is not None:
            expires_at = min(expires_at, latest)
        token_id = token_id or randomness.token_urlsafe(12)
        claims = _Claims(
            hub=hub,
            exp=expires_at,
            iat=round(now, 3),
            sub=identity.user_id,
            jti=token_id,
            level=identity.level,
            channels=identity.grants,
            rpcs=identity.rpcs,
            extra=identity.extra,
            renewable_until=renewable_until,
            parent=identity.parent_id,
        )
        told = {"iss": self._issuer, "level": identity.level.value, **msgspec.to_builtins(claims)}
        admin = identity.level is Level.ADMIN or hub == ANY_HUB
        key = (self._keys.admin if admin else self._keys.session)[0]
        headers = {"kid": key.id, "typ": "admin" if admin else "session"}
        token = jwt.encode(told, key.secret, self._algorithm, headers=headers)
        if len(token) > _MAX_TOKEN_CHARS:
            raise TooLarge("so many permissions and so much metadata do not fit into a token")
        return IssuedToken(token, token_id, round(now * 1000), expires_at)

    # -- verifying ------------------------------------------------------------------------------

    def verify(self, token: str, hub: str) -> Identity:
        """The token's identity in this hub. Raises `InvalidToken`; for foreign issuers also
        `AuthProviderFailed` and `KeysNeeded` (see `verify_fetching`)."""
        digest = _digest(token)
        known = self._verified.get(digest)
        if known is None:
            if len(token) > _MAX_TOKEN_CHARS:
                raise InvalidToken(f"the token is longer than {_MAX_TOKEN_CHARS} characters")
            if self._issuers is not None and hub != ANY_HUB:
                identity = self._issuers.verify(token, digest, hub)
                if identity is not None:
                    self.check(identity, hub)
                    return identity
            known = self._remember(digest, token)
        self.check(known.identity, hub)
        if known.hub not in (hub, ANY_HUB):
            raise InvalidToken(f"the token was made for another hub than {hub!r}")
        return known.identity

    def knows(self, token: str, hub: str) -> bool:
        """Whether the token was verified before. It may have expired since, or belong to another
        hub."""
        digest = _digest(token)
        if digest in self._verified:
            return True
        return self._issuers is not None and self._issuers.knows(digest, hub)

    def identify(self, token: str) -> tuple[str, Identity]:
        """The token's hub (`ANY_HUB`: all) and identity. Only for tokens of this server: foreign
        ones name no hub. Raises `InvalidToken`."""
        digest = _digest(token)
        known = self._verified.get(digest)
        if known is None:
            known = self._remember(digest, token)
        self.check(known.identity, known.hub)
        return known.hub, known.identity

    def _remember(self, digest: bytes, token: str) -> _Verified:
        if len(token) > _MAX_TOKEN_CHARS:
            raise InvalidToken(f"the token is longer than {_MAX_TOKEN_CHARS} characters")
        known = self._verify_signature(token)
        if len(self._verified) >= _REMEMBERED_TOKENS:
            self._verified.clear()
        self._verified[digest] = known
        return known

    async def verify_fetching(self, token: str, hub: str) -> Identity:
        """Like `verify`, but first fetches a foreign issuer's keys if necessary."""
        try:
            return self.verify(token, hub)
        except KeysNeeded as needed:
            await self.fetch_keys(needed)
        return self.verify(token, hub)

    async def fetch_keys(self, needed: KeysNeeded) -> None:
        """If the keys cannot be fetched, the next `verify` raises `AuthProviderFailed`."""
        assert self._issuers is not None
        await self._issuers.fetch(needed)

    def check(self, identity: Identity, hub: str) -> None:
        """Raises `InvalidToken` if the identity expired or was revoked in this hub."""
        if identity.expires_at is not None and identity.expires_at < self._clock.now():
            raise InvalidToken("the token has expired; get a new one")
        revocations = self._revocations
        if revocations is not None and revocations.in_force and revocations.covers(hub, identity):
            raise InvalidToken("the token was revoked; get a new one")

    def revoked(self, identity: Identity, hub: str) -> bool:
        return self._revocations is not None and self._revocations.covers(hub, identity)

    def reread_keys(self) -> None:
        """Replaces the keys by those now configured; tokens of removed keys become invalid."""
        keys = self._read_keys() if self._read_keys is not None else None
        if keys is not None and keys != self._keys:
            self._keys = keys
            self._verified.clear()
            self.changes += 1

    def _verify_signature(self, token: str) -> _Verified:
        try:
            header = jwt.get_unverified_header(token)
            admin = header.get("typ") == "admin"
            payload = self._decode(token, header.get("kid"), admin)
            claims = msgspec.convert(payload, _Claims)
        except jwt.InvalidTokenError as error:
            raise InvalidToken(f"the token is not valid: {error}") from None
        except msgspec.ValidationError as error:
            raise InvalidToken(f"the token's claims are not valid: {error}") from None
        needed = claims.level is Level.ADMIN or claims.hub == ANY_HUB
        for_all = claims.level is not Level.CLIENT
        if needed != admin or (claims.hub == ANY_HUB and not for_all):
            raise InvalidToken("the token claims a level that its key cannot give")
        identity = Identity(
            user_id=claims.sub,
            level=claims.level,
            grants=claims.channels,
            rpcs=claims.rpcs,
            extra=claims.extra,
            expires_at=claims.exp,
            token_id=claims.jti,
            parent_id=claims.parent,
            issued_at=round(claims.iat * 1000),
            all_hubs=claims.hub == ANY_HUB,
        )
        return _Verified(claims.hub, identity, claims.renewable_until)

    def _decode(self, token: str, key_id: object, admin: bool) -> Any:
        """Many JWT libraries set no `kid`: then all keys are tried. If none fits, the keys are read
        again once, since there may be a new one. Raises `jwt.InvalidTokenError` and
        `InvalidToken`."""
        for attempt in range(2):
            for key in self._keys.admin if admin else self._keys.session:
                if key_id not in (None, key.id):
                    continue
                try:
                    return self._decode_with(key, token)
                except jwt.InvalidSignatureError:
                    if key_id is not None:
                        raise
            now = self._clock.monotonic()
            if attempt or now < self._reread_at + _REREAD_SECONDS:
                break
            self._reread_at = now
            self.reread_keys()
        if key_id is not None:
            named = str(key_id)[:64]
            raise InvalidToken(
                f"the token names the key {named!r} (`kid`), which is not known here"
            )
        raise InvalidToken(
            "the token names no key (`kid` in its header), and no key that is known here signed it"
        )

    def _decode_with(self, key: SigningKey, token: str) -> Any:
        """Expiry is checked at every use (`check`), by the hub's own clock. Raises
        `jwt.InvalidTokenError`."""
        return jwt.decode(
            token,
            key.secret,
            algorithms=[self._algorithm],
            issuer=self._issuer,
            options={"require": ["exp", "iss"], "verify_exp": False, "verify_iat": False},
        )


def _digest(token: str) -> bytes:
    return hashlib.blake2b(token.encode("utf-8", "replace"), digest_size=16).digest()
