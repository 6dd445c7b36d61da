"""The keys that verify tokens of Mercure, as settings of a hub."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Annotated, Final, Literal

from msgspec import Meta

from hubbub.domain.setting import Setting

MIN_SECRET_BYTES: Final = 32
_PUBLIC_KEY: Final = "-----BEGIN PUBLIC KEY-----"

Algorithm = Literal["HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "ES256", "ES384", "EdDSA"]


class MercureKey(Setting, frozen=True):
    """A key that verifies the tokens of a hub's [Mercure](mercure.md) clients. The `key` of `HS…`
    is secret: responses show `(hidden)`, which keeps it when it is sent back with the same
    `algorithm`."""

    key: Annotated[str, Meta(max_length=16_384)]
    """The secret of `HS…`, of at least 32 bytes; for other algorithms a public key as PEM."""
    algorithm: Algorithm = "HS256"
    """The only algorithm of its tokens."""
    publish: bool = True
    """Its tokens may allow to publish."""
    subscribe: bool = True
    """Its tokens may allow to subscribe."""

    @property
    def fingerprint(self) -> str:
        """Identifies key and algorithm without telling the key."""
        return sha256(f"{self.algorithm}\n{self.key}".encode()).hexdigest()[:32]

    @property
    def symmetric(self) -> bool:
        return self.algorithm.startswith("HS")


def mercure_problems(key: MercureKey) -> Iterator[tuple[str, str]]:
    """Yields (field, problem) without the key itself."""
    if key.symmetric and len(key.key.encode()) < MIN_SECRET_BYTES:
        yield "key", f"has fewer than {MIN_SECRET_BYTES} bytes (hidden); make a longer secret"
    if key.symmetric and "-----BEGIN" in key.key:
        yield "key", "is a PEM, which is no secret (hidden); name the algorithm of that key"
    if not key.symmetric and _PUBLIC_KEY not in key.key:
        yield "key", f"is no public key (hidden); expected PEM that begins with {_PUBLIC_KEY}"
