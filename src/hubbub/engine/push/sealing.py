"""Encryption of secrets at rest, with a key that is not in the database."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hubbub.domain.errors import Unavailable
from hubbub.engine.access.tokens import SigningKey
from hubbub.ports import randomness

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_VERSION = 1
_NONCE_BYTES = 12


class Vault:
    """AES-256-GCM with keys derived from the signing keys: the first key encrypts, all keys
    decrypt."""

    def __init__(self, keys: Callable[[], Sequence[SigningKey]]) -> None:
        self._keys = keys

    def seal(self, data: bytes, place: str) -> bytes:
        """`place` is authenticated: a secret encrypted for one place cannot be decrypted for
        another."""
        key = self._keys()[0]
        name = key.id.encode()
        nonce = randomness.token_bytes(_NONCE_BYTES)
        head = bytes([_VERSION, len(name)]) + name
        return head + nonce + _cipher(key).encrypt(nonce, data, head + place.encode())

    def open(self, sealed: bytes, place: str) -> bytes:
        """Raises `Unavailable` if the key is missing or the ciphertext was changed."""
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
        """Whether the secret is encrypted with the current key."""
        return sealed[2 : 2 + sealed[1]] == self._keys()[0].id.encode()


def _cipher(key: SigningKey) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(hmac.digest(key.secret, b"hubbub sealed secrets", "sha256"))
