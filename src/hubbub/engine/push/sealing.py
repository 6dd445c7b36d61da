"""Secrets at rest: sealed with a key that is not in the database."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hubbub.domain.errors import Unavailable
from hubbub.engine.access.tokens import SigningKey

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_VERSION = 1
_NONCE_BYTES = 12


class Vault:
    """AES-256-GCM under keys derived from signing keys: the first seals, all open."""

    def __init__(self, keys: Callable[[], Sequence[SigningKey]]) -> None:
        self._keys = keys

    def seal(self, data: bytes, place: str) -> bytes:
        """`place` says where it lies: what is sealed for one place cannot be opened in another."""
        key = self._keys()[0]
        name = key.id.encode()
        nonce = secrets.token_bytes(_NONCE_BYTES)
        head = bytes([_VERSION, len(name)]) + name
        return head + nonce + _cipher(key).encrypt(nonce, data, head + place.encode())

    def open(self, sealed: bytes, place: str) -> bytes:
        """Raises `Unavailable` where the key is gone, or the bytes were changed."""
        from cryptography.exceptions import InvalidTag

        name = sealed[2 : 2 + sealed[1]]
        head, rest = sealed[: 2 + len(name)], sealed[2 + len(name) :]
        key = next((each for each in self._keys() if each.id.encode() == name), None)
        if key is None or sealed[0] != _VERSION:
            raise Unavailable("a secret was sealed with a signing key that is gone; give it again")
        try:
            nonce, data = rest[:_NONCE_BYTES], rest[_NONCE_BYTES:]
            return _cipher(key).decrypt(nonce, data, head + place.encode())
        except (InvalidTag, ValueError):
            raise Unavailable("a sealed secret is damaged; give it again") from None

    def is_current(self, sealed: bytes) -> bool:
        """Whether it is sealed with the key that seals now."""
        return sealed[2 : 2 + sealed[1]] == self._keys()[0].id.encode()


def _cipher(key: SigningKey) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(hmac.digest(key.secret, b"hubbub sealed secrets", "sha256"))
