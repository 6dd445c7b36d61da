"""Tokens of foreign issuers: verified with the public keys named in a hub's settings.

Keys are fetched on demand, cached, and fetched again when a token names an unknown key, but at most
every few seconds. Every failure on the way is an error and never grants access. Verifying never
waits: if keys are missing it raises `KeysNeeded`; the caller awaits `Issuers.fetch` and verifies
again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import jwt
import msgspec

from hubbub.domain.errors import AuthProviderFailed, HubbubError, InvalidToken
from hubbub.domain.permissions import Grant, Identity, Level
from hubbub.domain.rules import HubSettings, TrustedIssuer
from hubbub.domain.setting_checks import Problem
from hubbub.domain.shares import FairShare
from hubbub.ports.clock import Clock
from hubbub.ports.key_source import KeySource

FRESH_SECONDS = 300.0
USABLE_SECONDS = 3600.0
COOLDOWN_SECONDS = 10.0
MAX_KEYS = 100
MAX_SETS = 10_000
MAX_WAITING = 10_000
MAX_VALIDITY_SECONDS = 366 * 24 * 3600
_LEEWAY_SECONDS = 5
_REMEMBERED_TOKENS = 20_000
_ALGORITHMS = {("RSA", None): "RS256", ("EC", "P-256"): "ES256", ("OKP", "Ed25519"): "EdDSA"}

Keys = dict[str | None, jwt.PyJWK]


class KeysNeeded(Exception):
    """The token can be verified only after these keys were fetched."""

    def __init__(self, hub: str, issuer: TrustedIssuer, url: str) -> None:
        super().__init__(url)
        self.hub = hub
        self.issuer = issuer
        self.url = url


class _WrongSignature(Exception):
    """The token was signed with another key."""


@dataclass(slots=True, eq=False)
class _KeySet:
    """The keys behind one URL as one hub fetched them, and the result of the last fetch."""

    keys: Keys = field(default_factory=dict)
    fetched_at: float = float("-inf")
    asked_at: float = float("-inf")
    error: HubbubError | None = None
    task: asyncio.Task[None] | None = None


class _VerifiedByIssuer(msgspec.Struct, frozen=True):
    """A token whose signature is valid for this issuer and key."""

    issuer: TrustedIssuer
    key: Any
    kid: str | None
    identity: Identity


class Issuers:
    """Verifies tokens of foreign issuers."""

    def __init__(
        self,
        settings_of: Callable[[str], HubSettings],
        source: KeySource,
        clock: Clock,
    ) -> None:
        self._settings_of = settings_of
        self._source = source
        self._clock = clock
        self._sets: dict[tuple[str, str], _KeySet] = {}
        """Key sets by hub and URL: hubs that trust the same issuer do not wait for each other."""
        self._waiting = FairShare(MAX_WAITING)
        """Number of requests that wait for keys."""
        self._verified: dict[tuple[str, bytes], _VerifiedByIssuer] = {}

    def verify(self, token: str, digest: bytes, hub: str) -> Identity | None:
        """The identity in the token, or None if the hub trusts no such issuer. Raises
        `InvalidToken`, `AuthProviderFailed`, `KeysNeeded`. The caller checks the expiry."""
        known = self._verified.get((hub, digest))
        if known is not None and self._holds(known, hub):
            return known.identity
        try:
            header = jwt.get_unverified_header(token)
        except jwt.InvalidTokenError as error:
            raise InvalidToken(f"the token is not valid: {error}") from None
        if header.get("alg") not in _ALGORITHMS.values():
            return None
        verified = self._verify(token, header, hub)
        if len(self._verified) >= _REMEMBERED_TOKENS:
            self._verified.clear()
        self._verified[hub, digest] = verified
        return verified.identity

    def knows(self, digest: bytes, hub: str) -> bool:
        return (hub, digest) in self._verified

    def _holds(self, known: _VerifiedByIssuer, hub: str) -> bool:
        """Whether the issuer is still trusted and still publishes the key."""
        if known.issuer not in self._settings_of(hub).trusted_issuers:
            return False
        keys = _candidates(self._keys(hub, known.issuer, known.kid), known.kid)
        return any(key is known.key for key in keys)

    async def fetch(self, needed: KeysNeeded) -> None:
        """Fetches the keys; concurrent callers share one request. Raises `AuthProviderFailed` if
        too many requests of the hub wait already. The next `verify` reports whether keys were
        found."""
        keys = self._set(needed.hub, needed.url)
        if keys.task is None:
            if self._clock.monotonic() - keys.asked_at < COOLDOWN_SECONDS:
                return  # somebody was faster
            keys.task = asyncio.get_running_loop().create_task(self._fetch(needed, keys))
        if not self._waiting.may_take(needed.hub):
            raise AuthProviderFailed(
                f"too many requests wait for the keys of the issuer {needed.issuer.issuer!r}; "
                "try again later"
            )
        self._waiting.take(needed.hub)
        try:
            await asyncio.shield(keys.task)
        finally:
            self._waiting.give_back(needed.hub)

    def _set(self, hub: str, url: str) -> _KeySet:
        keys = self._sets.get((hub, url))
        if keys is None:
            if len(self._sets) >= MAX_SETS:
                for key in [each for each, known in self._sets.items() if known.task is None]:
                    del self._sets[key]
            keys = self._sets[hub, url] = _KeySet()
        return keys

    async def _fetch(self, needed: KeysNeeded, keys: _KeySet) -> None:
        try:
            settings = self._settings_of(needed.hub)
            reach = needed.issuer.addresses or settings.callback_addresses
            found = parse_keys(await self._source.fetch(needed.hub, needed.url, reach))
            # Keys that stay are the same objects: what was verified with them still holds.
            for kid, known in keys.keys.items():
                if kid in found and found[kid].key == known.key:
                    found[kid] = known
            keys.keys = found
            keys.fetched_at = self._clock.monotonic()
            keys.error = None
        except HubbubError as error:
            keys.error = error
        finally:
            keys.asked_at = self._clock.monotonic()
            keys.task = None

    # -- one token ------------------------------------------------------------------------------

    def _verify(self, token: str, header: dict[str, Any], hub: str) -> _VerifiedByIssuer:
        try:
            claims = jwt.decode(token, options={"verify_signature": False})
        except jwt.InvalidTokenError as error:
            raise InvalidToken(f"the token is not valid: {error}") from None
        kid = header.get("kid")
        if kid is not None and not isinstance(kid, str):
            raise InvalidToken("the token's `kid` is not text")
        # The same words for a hub that trusts another issuer, and for one that does not exist: who
        # can show no token that the issuer signed does not learn whom a hub trusts.
        problem = InvalidToken(
            f"hub {hub!r} trusts no issuer that signed this token; check `iss`, `aud` and `kid`"
        )
        for issuer in self._settings_of(hub).trusted_issuers:
            if issuer.issuer != claims.get("iss"):
                continue
            for key in _candidates(self._keys(hub, issuer, kid), kid):
                try:
                    return _VerifiedByIssuer(issuer, key, kid, self._identity(token, issuer, key))
                except _WrongSignature:
                    continue
                except InvalidToken as error:
                    problem = error
        raise problem

    def _identity(self, token: str, issuer: TrustedIssuer, key: jwt.PyJWK) -> Identity:
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=[str(key.algorithm_name)],
                issuer=issuer.issuer,
                audience=issuer.audience,
                leeway=_LEEWAY_SECONDS,
                # Expiry is checked at every use, by the hub's own clock.
                options={"require": ["exp", "iss", "aud"], "verify_exp": False},
            )
        except (jwt.InvalidSignatureError, jwt.InvalidAlgorithmError):
            raise _WrongSignature from None
        except jwt.InvalidTokenError as error:
            raise InvalidToken(f"the token is not valid: {error}") from None
        expires_at = _number(claims, "exp")
        if expires_at > self._clock.now() + MAX_VALIDITY_SECONDS:
            raise InvalidToken("the token is valid for more than a year; have shorter ones issued")
        try:
            return Identity(
                user_id=msgspec.convert(claims.get(issuer.user_claim), str),
                level=Level(issuer.level),
                grants=msgspec.convert(claims.get(issuer.channels_claim, ()), tuple[Grant, ...]),
                rpcs=msgspec.convert(claims.get(issuer.rpcs_claim, ()), tuple[str, ...]),
                extra=msgspec.convert(claims.get(issuer.extra_claim, {}), dict[str, Any]),
                expires_at=int(expires_at),
                token_id=msgspec.convert(claims.get("jti"), str | None),
                issued_at=int(_number(claims, "iat", 0) * 1000),
                foreign=True,
                issuer=issuer.issuer,
            )
        except msgspec.ValidationError as error:
            raise InvalidToken(f"the token's claims are not valid: {error}") from None

    # -- keys -----------------------------------------------------------------------------------

    def _keys(self, hub: str, issuer: TrustedIssuer, kid: str | None) -> Keys:
        """The issuer's keys, if they are recent enough to tell whether `kid` is among them."""
        if issuer.jwks_url is None:
            return _inline_keys(msgspec.json.encode({"keys": issuer.keys}))
        keys = self._sets.get((hub, issuer.jwks_url))
        if keys is None:
            raise KeysNeeded(hub, issuer, issuer.jwks_url)
        now = self._clock.monotonic()
        fresh = (kid is None or kid in keys.keys) and now - keys.fetched_at < FRESH_SECONDS
        if not fresh and now - keys.asked_at >= COOLDOWN_SECONDS:
            raise KeysNeeded(hub, issuer, issuer.jwks_url)
        if now - keys.fetched_at >= USABLE_SECONDS:
            raise AuthProviderFailed(
                f"the keys of the issuer {issuer.issuer!r} are not to be had: "
                + (keys.error.message if keys.error is not None else "they are too old")
            )
        return keys.keys


def parse_keys(document: bytes) -> Keys:
    """The usable keys of a JWKS document by `kid`; others are ignored, as RFC 7517 requires. Raises
    `AuthProviderFailed` if there is none."""
    try:
        entries = msgspec.json.decode(document, type=dict[str, Any]).get("keys")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise AuthProviderFailed("the JWKS document is not JSON") from None
    if not isinstance(entries, list):
        raise AuthProviderFailed("the JWKS document has no list `keys`")
    keys: Keys = {}
    for entry in entries[:MAX_KEYS]:
        key = _usable_key(entry)
        if key is not None:
            keys[key.key_id] = key
    if not keys:
        raise AuthProviderFailed(
            "the JWKS document holds no key for RS256, ES256 or EdDSA signatures"
        )
    return keys


def key_problems(settings: HubSettings) -> Iterator[Problem]:
    """Trusted issuers whose inline keys cannot verify tokens."""
    for index, issuer in enumerate(settings.trusted_issuers):
        if issuer.keys:
            try:
                parse_keys(msgspec.json.encode({"keys": issuer.keys}))
            except AuthProviderFailed as error:
                yield f"trustedIssuers[{index}].keys", f"cannot be used: {error.message}"


_inline_keys = lru_cache(maxsize=256)(parse_keys)


def _usable_key(entry: object) -> jwt.PyJWK | None:
    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
        return None
    kind, curve = entry.get("kty"), entry.get("crv")
    try:
        algorithm = _ALGORITHMS.get((str(kind), curve))
        if algorithm is None or entry.get("alg", algorithm) != algorithm or "d" in entry:
            return None
        key = jwt.PyJWK(entry, algorithm)
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    too_weak = kind == "RSA" and getattr(key.key, "key_size", 0) < 2048
    return None if too_weak or not isinstance(key.key_id, str | None) else key


def _candidates(keys: Keys, kid: str | None) -> tuple[jwt.PyJWK, ...]:
    """The key with this id; all keys if the token names none."""
    if kid is None:
        return tuple(keys.values())
    return (keys[kid],) if kid in keys else ()


def _number(claims: dict[str, Any], name: str, default: float | None = None) -> float:
    value = claims.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise InvalidToken(f"the token's `{name}` is not a time")
    return value
