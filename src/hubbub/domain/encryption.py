"""Encrypted content (RFC 8188, `aes128gcm`), readable only with the key."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from hubbub.domain.errors import BadRequest

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

CONTENT_ENCODING = "aes128gcm"
SALT_BYTES = 16

_TAG_BYTES = 16
_HEAD_BYTES = SALT_BYTES + 4 + 1
_MORE, _LAST = 1, 2
"""Delimiters that end a record's content; only zeros may follow."""


def encrypt(
    key: bytes, salt: bytes, body: bytes, key_id: bytes = b"", record_bytes: int = 18
) -> bytes:
    """Encrypts into one record; the header states a record size of `record_bytes`, or larger if
    needed. `salt`: 16 random bytes, never reused. `key_id` (at most 255 bytes) tells the reader
    which key was used."""
    content, nonce = _derive(key, salt)
    size = len(body) + 1 + _TAG_BYTES
    head = salt + max(size, record_bytes).to_bytes(4, "big") + bytes([len(key_id)]) + key_id
    return head + _cipher(content).encrypt(_nonce(nonce, 0), body + bytes([_LAST]), None)


def decrypt(key: bytes, data: bytes) -> bytes:
    """Raises `BadRequest` if the data is truncated or was encrypted with another key."""
    if len(data) < _HEAD_BYTES:
        raise BadRequest("the encrypted content is cut short")
    salt, size = data[:SALT_BYTES], int.from_bytes(data[SALT_BYTES : SALT_BYTES + 4], "big")
    start = _HEAD_BYTES + data[SALT_BYTES + 4]
    if size < 18 or len(data) <= start:
        raise BadRequest("the encrypted content has no records")
    content, nonce = _derive(key, salt)
    cipher = _cipher(content)
    parts = [data[place : place + size] for place in range(start, len(data), size)]
    return b"".join(
        _opened(cipher, _nonce(nonce, number), part, number == len(parts) - 1)
        for number, part in enumerate(parts)
    )


def _opened(cipher: AESGCM, nonce: bytes, record: bytes, is_last: bool) -> bytes:
    from cryptography.exceptions import InvalidTag

    try:
        padded = cipher.decrypt(nonce, record, None).rstrip(b"\x00")
    except (InvalidTag, ValueError):
        raise BadRequest("the content cannot be decrypted with this key") from None
    if padded[-1:] != bytes([_LAST if is_last else _MORE]):
        raise BadRequest("the encrypted content does not end where it says")
    return padded[:-1]


def _cipher(key: bytes) -> AESGCM:
    """Imported lazily: most hubs encrypt nothing."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def _derive(key: bytes, salt: bytes) -> tuple[bytes, bytes]:
    """Derives the content key and the nonce base."""
    secret = hmac.digest(salt, key, "sha256")
    content = hmac.digest(secret, b"Content-Encoding: aes128gcm\x00\x01", "sha256")
    nonce = hmac.digest(secret, b"Content-Encoding: nonce\x00\x01", "sha256")
    return content[:16], nonce[:12]


def _nonce(base: bytes, number: int) -> bytes:
    return (int.from_bytes(base, "big") ^ number).to_bytes(12, "big")
