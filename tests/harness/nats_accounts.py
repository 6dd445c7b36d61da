"""Decentralised accounts of NATS, made by hand: an operator, an account, and a user's credentials
file. (The tool `nsc` does this for people.)"""

from __future__ import annotations

import base64
import json
import secrets
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_OPERATOR, _ACCOUNT, _USER = 14 << 3, 0, 20 << 3
_SEED = 18 << 3


class Key:
    """An nkey: an Ed25519 key with a letter in front that says whose it is."""

    def __init__(self, kind: int) -> None:
        self._kind = kind
        self._private = Ed25519PrivateKey.generate()

    @property
    def public(self) -> str:
        raw = self._private.public_key().public_bytes(
            serialization.Encoding.Raw, serialization.PublicFormat.Raw
        )
        return _encoded(bytes([self._kind]) + raw)

    @property
    def seed(self) -> str:
        raw = self._private.private_bytes(
            serialization.Encoding.Raw,
            serialization.PrivateFormat.Raw,
            serialization.NoEncryption(),
        )
        return _encoded(bytes([_SEED | self._kind >> 5, (self._kind & 31) << 3]) + raw)

    def sign(self, subject: str, name: str, claims: dict[str, object]) -> str:
        """A JWT about the subject."""
        head = {"typ": "JWT", "alg": "ed25519-nkey"}
        body = {
            "jti": secrets.token_hex(16),
            "iat": 1_700_000_000,
            "iss": self.public,
            "name": name,
            "sub": subject,
            "nats": {"version": 2, **claims},
        }
        signed = f"{_text(head)}.{_text(body)}"
        signature = base64.urlsafe_b64encode(self._private.sign(signed.encode())).decode()
        return f"{signed}.{signature.rstrip('=')}"


class Accounts:
    """The configuration of a server, and the credentials of one user."""

    def __init__(self) -> None:
        operator, self._account = Key(_OPERATOR), Key(_ACCOUNT)
        self._operator = operator.sign(operator.public, "operator", {"type": "operator"})
        limits = {
            "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": True,
            "conn": -1, "leaf": -1,
        }  # fmt: skip
        self._claims = operator.sign(
            self._account.public, "account", {"type": "account", "limits": limits}
        )

    def configuration(self, port: int) -> str:
        return (
            f'listen: "127.0.0.1:{port}"\noperator: "{self._operator}"\nresolver: MEMORY\n'
            f'resolver_preload: {{ {self._account.public}: "{self._claims}" }}\n'
        )

    def write_credentials(self, file: Path) -> None:
        user = Key(_USER)
        claims = {"type": "user", "subs": -1, "data": -1, "payload": -1}
        jwt = self._account.sign(user.public, "node", claims)
        file.write_text(
            f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n"
        )


def _text(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _encoded(raw: bytes) -> str:
    return base64.b32encode(raw + _crc16(raw).to_bytes(2, "little")).decode().rstrip("=")


def _crc16(data: bytes) -> int:
    """CRC-16/XMODEM."""
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc
