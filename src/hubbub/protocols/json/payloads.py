"""Payloads in JSON: bytes as one of `json`, `text` and `base64`."""

from __future__ import annotations

from msgspec import UNSET, Raw, Struct, UnsetType

from hubbub.domain.errors import InvalidPayload
from hubbub.domain.messages import BINARY, JSON, TEXT, is_text
from hubbub.domain.payloads import readable_json


class EncodedPayload(Struct, omit_defaults=True, gc=False):
    """Encoded bytes: exactly one of the three fields is set."""

    json: Raw = Raw()
    text: str | UnsetType = UNSET
    base64: bytes | UnsetType = UNSET


def write_payload(body: bytes, content_type: str) -> tuple[EncodedPayload, str | None]:
    """Returns the payload, and its content type if the encoding does not imply it."""
    if content_type == JSON:
        return EncodedPayload(Raw(body)), None
    if is_text(content_type):
        return EncodedPayload(text=body.decode()), None if content_type == TEXT else content_type
    return EncodedPayload(base64=body), None if content_type == BINARY else content_type


def given_payload(payload: EncodedPayload, where: str) -> tuple[bytes, str]:
    """Decodes a client's payload: the bytes, and the content type that the encoding implies. Raises
    `InvalidPayload`, which names `where`."""
    written = (bool(payload.json), payload.text is not UNSET, payload.base64 is not UNSET)
    if sum(written) != 1:
        raise InvalidPayload(f"{where} needs exactly one of `json`, `text` and `base64`")
    body, content_type = read_payload(payload)
    return (readable_json(body) if content_type == JSON else body), content_type


def read_payload(payload: EncodedPayload) -> tuple[bytes, str]:
    """Decodes the hub's payload: the bytes, and the content type that the encoding implies."""
    if payload.text is not UNSET:
        return payload.text.encode(), TEXT
    if payload.base64 is not UNSET:
        return payload.base64, BINARY
    return bytes(payload.json), JSON
