"""Verifies the tokens of Mercure: those of the hub's own keys for Mercure, and all others that the
hub accepts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Literal

import jwt

from hubbub.domain.errors import InvalidToken
from hubbub.domain.mercure.callers import MercureCaller, caller_of, read_claim
from hubbub.domain.mercure.keys import MercureKey
from hubbub.domain.mercure.selectors import NOTHING, Selectors
from hubbub.domain.names import user_id_problem
from hubbub.domain.permissions import Identity
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node

_CLAIM = "mercure"
_NAMELESS = "mercure"
"""The user id of tokens without `sub`: sessions without a user id would count as anonymous."""
_MAX_TOKEN_CHARS = 16 * 1024
_REMEMBERED = 20_000

Action = Literal["publish", "subscribe"]


class MercureCredentials:
    """Serves all hubs of a node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._verified: dict[tuple[str, bytes], MercureCaller] = {}

    def verify(self, token: str, hub: Hub, address: str, action: Action) -> MercureCaller:
        """The caller with this token. Raises `InvalidToken`, `RateLimited`, and the errors of
        tokens of other issuers."""
        claims = _unverified(token)
        if _CLAIM not in claims:
            return caller_of(self._node.credentials.verify(token, hub.name, address))
        digest = hashlib.blake2b(token.encode(), digest_size=16).digest()
        known = self._verified.get((hub.name, digest))
        usable = known is not None and any(
            key.fingerprint == known.fingerprint and getattr(key, action)
            for key in hub.configuration.mercure_keys.values()
        )
        if known is None or not usable:
            known = self._verify(token, claims, digest, hub, address, action)
        self._node.tokens.check(known.identity, hub.name)
        return known

    def _verify(
        self,
        token: str,
        claims: dict[str, Any],
        digest: bytes,
        hub: Hub,
        address: str,
        action: Action,
    ) -> MercureCaller:
        with self._node.throttle.guess(hub.name, address):
            found = self._by_own_keys(token, hub, action)
        if found is None:
            # An issuer that the hub trusts may give tokens for Mercure as well.
            identity = self._node.credentials.verify(token, hub.name, address)
            return _caller(identity, claims, None)
        if len(self._verified) >= _REMEMBERED:
            self._verified.clear()
        self._verified[hub.name, digest] = found
        return found

    def _by_own_keys(self, token: str, hub: Hub, action: Action) -> MercureCaller | None:
        """None if the token names an issuer that the hub trusts, and is signed by none of its keys
        for Mercure."""
        keys = [key for key in hub.configuration.mercure_keys.values() if getattr(key, action)]
        for key, claims in _verifying(token, keys):
            return _caller(_identity(claims), claims, key.fingerprint)
        issuer = _unverified(token).get("iss")
        if any(each.issuer == issuer for each in hub.configuration.settings.trusted_issuers):
            return None
        raise InvalidToken(
            f"none of the keys of hub {hub.name!r} with which a token may {action} signed this "
            "token; compare key and algorithm with its mercureKeys"
        )


def _unverified(token: str) -> dict[str, Any]:
    """The claims without any trust in them. Raises `InvalidToken`."""
    if len(token) > _MAX_TOKEN_CHARS:
        raise InvalidToken(f"the token is longer than {_MAX_TOKEN_CHARS} characters")
    try:
        claims = jwt.decode(token, options={"verify_signature": False})
    except (jwt.InvalidTokenError, RecursionError) as error:
        raise InvalidToken(f"the token is not valid: {error}") from None
    return dict(claims)


def _verifying(token: str, keys: list[MercureKey]) -> Iterator[tuple[MercureKey, dict[str, Any]]]:
    """The keys that verify the signature, with the claims."""
    for key in keys:
        try:
            claims = jwt.decode(
                token,
                key.key,
                algorithms=[key.algorithm],
                # The hub's own clock decides about expiry, at every use.
                options={"verify_exp": False, "verify_aud": False, "verify_iat": False},
            )
        except jwt.ImmatureSignatureError:
            raise InvalidToken("the token is not valid yet (`nbf`)") from None
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
        yield key, claims


def _identity(claims: dict[str, Any]) -> Identity:
    subject, token_id = claims.get("sub"), claims.get("jti")
    for name, value in (("sub", subject), ("jti", token_id)):
        if value is not None and (not isinstance(value, str) or user_id_problem(value)):
            raise InvalidToken(f"the token's `{name}` is no id of 1 to 253 characters")
    issued_at = _seconds(claims, "iat")
    return Identity(
        user_id=subject or _NAMELESS,
        expires_at=None if (end := _seconds(claims, "exp")) is None else int(end),
        token_id=token_id,
        issued_at=0 if issued_at is None else int(issued_at * 1000),
    )


def _seconds(claims: dict[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise InvalidToken(f"the token's `{name}` is not a time")
    return value


def _caller(identity: Identity, claims: dict[str, Any], fingerprint: str | None) -> MercureCaller:
    claim = read_claim(claims[_CLAIM])
    return MercureCaller(
        identity,
        None if claim.publish is None else Selectors(claim.publish),
        NOTHING if claim.subscribe is None else Selectors(claim.subscribe),
        claim.payload,
        fingerprint,
        claims=True,
    )
