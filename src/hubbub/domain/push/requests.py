"""The request to a push service for one device: URL, headers and body.

Keys, salts and times come from the caller. This module neither stores nor sends anything.
"""

from __future__ import annotations

import hashlib
import hmac
from math import ceil
from typing import TYPE_CHECKING, Final

import msgspec

from hubbub.domain.callbacks import check_callback
from hubbub.domain.encryption import CONTENT_ENCODING, encrypt
from hubbub.domain.push.content import PushNote
from hubbub.domain.push.tokens import PushToken, b64url

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

VAPID_SECONDS: Final = 12 * 3600
"""Lifetime of a signature for a web push service; at most 24 hours (RFC 8292 2)."""
RECORD_BYTES: Final = 4096
FCM_SCOPE: Final = "https://www.googleapis.com/auth/firebase.messaging"
ASSERTION_SECONDS: Final = 3600
_COLLAPSE_CHARS = 32
_APNS_HIGH, _APNS_LOW = "10", "5"
_LOW_URGENCIES = ("very-low", "low")

Headers = tuple[tuple[str, str], ...]


class PushRequest(msgspec.Struct, frozen=True):
    """A POST to a push service."""

    url: str
    headers: Headers
    body: bytes


class VapidKey(msgspec.Struct, frozen=True):
    """A hub's own key pair for web push: the private number and the public point."""

    id: str
    private: bytes
    public: bytes
    created_at: int = 0

    def __repr__(self) -> str:
        return f"VapidKey(id={self.id!r}, private=hidden)"


def make_vapid_key(private: ec.EllipticCurvePrivateKey, created_at: int) -> VapidKey:
    public = point_of(private)
    number = private.private_numbers().private_value.to_bytes(32, "big")
    return VapidKey(hashlib.sha256(public).hexdigest()[:16], number, public, created_at)


def point_of(private: ec.EllipticCurvePrivateKey) -> bytes:
    """The public key, as an uncompressed point."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def private_key_of(number: bytes) -> ec.EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.derive_private_key(int.from_bytes(number, "big"), ec.SECP256R1())


def collapse_id(key: str) -> str:
    """A hash of 32 characters that every service accepts."""
    return b64url(hashlib.sha256(key.encode()).digest())[:_COLLAPSE_CHARS]


# -- Web Push -------------------------------------------------------------------------------------


def encrypt_for(
    body: bytes, receiver: bytes, secret: bytes, sender: ec.EllipticCurvePrivateKey, salt: bytes
) -> bytes:
    """RFC 8291: only the browser with the public key `receiver` and the `secret` can decrypt the
    result. `sender` is a key pair and `salt` 16 random bytes, both used for this message only."""
    from cryptography.hazmat.primitives.asymmetric import ec

    public = point_of(sender)
    point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), receiver)
    shared = sender.exchange(ec.ECDH(), point)
    both = hmac.digest(secret, shared, "sha256")
    key = hmac.digest(both, b"WebPush: info\x00" + receiver + public + b"\x01", "sha256")
    return encrypt(key, salt, body, public, RECORD_BYTES)


def vapid_signature(key: VapidKey, origin: str, contact: str, expires_at: int) -> str:
    """The `Authorization` value for the service at `origin` (RFC 8292). `expires_at`: seconds since
    1970."""
    import jwt

    claims = {"aud": origin, "exp": expires_at, "sub": contact}
    token = jwt.encode(claims, private_key_of(key.private), algorithm="ES256")
    return f"vapid t={token}, k={b64url(key.public)}"


def origin_of(url: str) -> str:
    parts = check_callback(url)
    return f"{'https' if parts.tls else 'http'}://{parts.authority}"


def web_push_request(
    token: PushToken, note: PushNote, encrypted: bytes, authorization: str, left: int
) -> PushRequest:
    """`left`: seconds until the push expires."""
    options = note.options
    headers = [
        ("Authorization", authorization),
        ("Content-Encoding", CONTENT_ENCODING),
        ("Content-Type", "application/octet-stream"),
        ("TTL", str(left)),
        ("Urgency", options.urgency),
    ]
    if options.collapse_key is not None:
        headers.append(("Topic", collapse_id(options.collapse_key)))
    return PushRequest(token.token, tuple(headers), encrypted)


# -- FCM ------------------------------------------------------------------------------------------


def fcm_assertion(
    email: str, key: rsa.RSAPrivateKey, key_id: str | None, audience: str, now: int
) -> str:
    """A signed claim of a service account, which Google exchanges for an access token."""
    import jwt

    claims = {
        "iss": email,
        "scope": FCM_SCOPE,
        "aud": audience,
        "iat": now,
        "exp": now + ASSERTION_SECONDS,
    }
    return jwt.encode(claims, key, algorithm="RS256", headers={"kid": key_id} if key_id else None)


def fcm_request(
    base: str,
    project: str,
    token: PushToken,
    note: PushNote,
    rendered: bytes,
    access: str,
    left: int,
) -> PushRequest:
    options = note.options
    android: dict[str, str] = {
        "ttl": f"{left}s",
        "priority": "HIGH" if options.urgency == "high" else "NORMAL",
    }
    if options.collapse_key is not None:
        android["collapse_key"] = collapse_id(options.collapse_key)
    beside = msgspec.json.encode({"token": token.token, "android": android})
    headers = (("Authorization", f"Bearer {access}"), ("Content-Type", "application/json"))
    body = b'{"message":%b,%b}' % (rendered[:-1], beside[1:])
    return PushRequest(f"{base}/v1/projects/{project}/messages:send", headers, body)


# -- APNs -----------------------------------------------------------------------------------------


def apns_provider_token(team: str, key_id: str, key: ec.EllipticCurvePrivateKey, now: int) -> str:
    import jwt

    return jwt.encode({"iss": team, "iat": now}, key, algorithm="ES256", headers={"kid": key_id})


def apns_request(
    base: str, topic: str, token: PushToken, note: PushNote, rendered: bytes, bearer: str
) -> PushRequest:
    options = note.options
    low = options.is_silent or options.urgency in _LOW_URGENCIES
    headers = [
        ("authorization", f"bearer {bearer}"),
        ("apns-topic", topic),
        ("apns-push-type", "background" if options.is_silent else "alert"),
        ("apns-priority", _APNS_LOW if low else _APNS_HIGH),
        ("apns-expiration", str(ceil(note.expires_at / 1000)) if options.ttl else "0"),
        ("content-type", "application/json"),
    ]
    if options.collapse_key is not None:
        headers.append(("apns-collapse-id", collapse_id(options.collapse_key)))
    return PushRequest(f"{base}/3/device/{token.token}", tuple(headers), rendered)
