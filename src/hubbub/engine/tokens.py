"""Signed tokens: who someone is and what they may do, verified once and then remembered."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import Any

import jwt
import msgspec

from hubbub.domain.errors import InvalidToken
from hubbub.domain.permissions import Grant, Identity, Level
from hubbub.ports.clock import Clock

ANY_HUB = "*"
_REMEMBERED_TOKENS = 20_000
_LEEWAY_SECONDS = 5
_MAX_TOKEN_CHARS = 16 * 1024


class SigningKey(msgspec.Struct, frozen=True):
    """A secret with a name, so that keys can change while older tokens still hold."""

    id: str
    """Goes into the `kid` of the tokens that it signs."""
    secret: bytes

    def __repr__(self) -> str:
        return f"SigningKey(id={self.id!r}, secret=hidden)"


class _Claims(msgspec.Struct, frozen=True):
    """What a token says. `hub` is a hub's id, or '*' for an administrator of all hubs."""

    hub: str
    exp: int
    sub: str | None = None
    jti: str | None = None
    level: Level = Level.CLIENT
    channels: tuple[Grant, ...] = ()
    rpcs: tuple[str, ...] = ()
    extra: dict[str, Any] = {}


class Tokens:
    """Issues and verifies the hub's own tokens. The first key signs; all keys verify.

    Client and service tokens are signed with the session keys, admin tokens with the admin keys:
    who can make the one kind cannot make the other.
    """

    def __init__(
        self,
        *,
        session_keys: Sequence[SigningKey],
        admin_keys: Sequence[SigningKey],
        issuer: str,
        clock: Clock,
        algorithm: str = "HS256",
    ) -> None:
        self._session_keys = tuple(session_keys)
        self._admin_keys = tuple(admin_keys)
        self._issuer = issuer
        self._clock = clock
        self._algorithm = algorithm
        self._verified: dict[bytes, tuple[str, Identity]] = {}
        self._revoked: set[str] = set()

    def issue(self, hub: str, identity: Identity, ttl_seconds: float) -> str:
        now = int(self._clock.now())
        claims: dict[str, Any] = {
            "iss": self._issuer,
            "iat": now,
            "exp": int(now + ttl_seconds),
            "jti": secrets.token_urlsafe(12),
            "hub": hub,
            "level": identity.level.value,
        }
        if identity.user_id is not None:
            claims["sub"] = identity.user_id
        if identity.grants:
            claims["channels"] = msgspec.to_builtins(identity.grants)
        if identity.rpcs:
            claims["rpcs"] = list(identity.rpcs)
        if identity.extra:
            claims["extra"] = identity.extra
        admin = identity.level is Level.ADMIN
        key = (self._admin_keys if admin else self._session_keys)[0]
        return jwt.encode(
            claims,
            key.secret,
            self._algorithm,
            headers={"kid": key.id, "typ": "admin" if admin else "session"},
        )

    def verify(self, token: str, hub: str) -> Identity:
        """Who the token speaks for, in this hub. Raises `InvalidToken`."""
        digest = hashlib.blake2b(token.encode("utf-8", "replace"), digest_size=16).digest()
        known = self._verified.get(digest)
        if known is None:
            known = self._verify_signature(token)
            if len(self._verified) >= _REMEMBERED_TOKENS:
                self._verified.clear()
            self._verified[digest] = known
        for_hub, identity = known
        self.check(identity)
        if for_hub not in (hub, ANY_HUB):
            raise InvalidToken(f"the token was made for another hub than {hub!r}")
        return identity

    def check(self, identity: Identity) -> None:
        """That an identity still holds. Raises `InvalidToken`."""
        if identity.expires_at is not None and identity.expires_at < self._clock.now():
            raise InvalidToken("the token has expired; get a new one")
        if identity.token_id is not None and identity.token_id in self._revoked:
            raise InvalidToken("the token was revoked; get a new one")

    def revoke(self, token_id: str) -> None:
        self._revoked.add(token_id)

    def _verify_signature(self, token: str) -> tuple[str, Identity]:
        if len(token) > _MAX_TOKEN_CHARS:
            raise InvalidToken(f"the token is longer than {_MAX_TOKEN_CHARS} characters")
        try:
            header = jwt.get_unverified_header(token)
            admin = header.get("typ") == "admin"
            payload = jwt.decode(
                token,
                self._key(str(header.get("kid")), admin).secret,
                algorithms=[self._algorithm],
                issuer=self._issuer,
                # Expiry is checked at every use (`check`), by the hub's own clock.
                options={"require": ["exp", "iss"], "verify_exp": False, "verify_iat": False},
            )
            claims = msgspec.convert(payload, _Claims)
        except jwt.InvalidTokenError as error:
            raise InvalidToken(f"the token is not valid: {error}") from None
        except msgspec.ValidationError as error:
            raise InvalidToken(f"the token's claims are not valid: {error}") from None
        if (claims.level is Level.ADMIN) != admin or (claims.hub == ANY_HUB and not admin):
            raise InvalidToken("the token claims a level that its key cannot give")
        return claims.hub, Identity(
            user_id=claims.sub,
            level=claims.level,
            grants=claims.channels,
            rpcs=claims.rpcs,
            extra=claims.extra,
            expires_at=claims.exp,
            token_id=claims.jti,
        )

    def _key(self, key_id: str, admin: bool) -> SigningKey:
        for key in self._admin_keys if admin else self._session_keys:
            if key.id == key_id:
                return key
        raise InvalidToken("the token was signed with a key that is not known here")
