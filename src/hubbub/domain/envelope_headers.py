"""The rarer envelope fields as HTTP headers, beside a body that is only the payload.

A field is a header with its name: `conversation_id` is `Hubbub-Conversation-Id`. Texts are UTF-8,
percent-encoded except for visible ASCII without `%`; numbers are decimal; `headers` and `location`
are JSON in ASCII.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

import msgspec

from hubbub.domain.envelope import NUMBERS, OBJECTS, TEXTS
from hubbub.domain.errors import InvalidAttribute
from hubbub.domain.fields import wire_name
from hubbub.domain.messages import Attributes

_SAFE: Final = "!\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"
"""All visible ASCII except the percent sign."""
_MAX_DIGITS: Final = 18
_PREFIX: Final = b"hubbub-"
SECURITY_HEADER: Final = "Hubbub-Security-Token"
IDEMPOTENCY_HEADER: Final = "Idempotency-Key"
PUSH_HEADER: Final = "Hubbub-Push-Options"


def header_name(field: str) -> str:
    return "Hubbub-" + "-".join(word.capitalize() for word in field.split("_"))


FIELDS: Final = {field: header_name(field) for field in (*TEXTS, *NUMBERS, *OBJECTS)}
"""Header name by field."""
_KEYS: Final = {field: header.lower().encode() for field, header in FIELDS.items()}
_SECURITY_KEY: Final = SECURITY_HEADER.lower().encode()
_IDEMPOTENCY_KEY: Final = IDEMPOTENCY_HEADER.lower().encode()
_PUSH_KEY: Final = PUSH_HEADER.lower().encode()
_OF_HUBS: Final = (b"hubbub-message-id", b"hubbub-method", b"hubbub-session")
"""Headers in each request that a hub sends (to a webhook, a service, a login), besides
`Hubbub-Hub`."""


def header_text(value: str) -> str:
    """A text as the value of a header."""
    return quote(value, safe=_SAFE)


def to_headers(attributes: Attributes) -> list[tuple[str, str]]:
    """Names and values of the headers for all fields that are set."""
    found: list[tuple[str, str]] = []
    for field, header in FIELDS.items():
        value = getattr(attributes, field)
        if value is None:
            continue
        if isinstance(value, str):
            found.append((header, header_text(value)))
        elif isinstance(value, int):
            found.append((header, str(value)))
        else:
            found.append((header, json.dumps(value, separators=(",", ":"))))
    return found


def security_token(headers: Mapping[bytes, bytes]) -> str | None:
    """`headers`: names in lower case. Raises `InvalidAttribute`."""
    value = headers.get(_SECURITY_KEY)
    return None if value is None else _text("security_token", value)


def idempotency_key(headers: Mapping[bytes, bytes]) -> str | None:
    """`headers`: names in lower case. Raises `InvalidAttribute`."""
    value = headers.get(_IDEMPOTENCY_KEY)
    return None if value is None else _text("idempotency_key", value)


def push_options(headers: Mapping[bytes, bytes]) -> dict[str, Any] | None:
    """`headers`: names in lower case. Raises `InvalidAttribute`."""
    value = headers.get(_PUSH_KEY)
    return None if value is None else _object("push_options", value)


def from_headers(headers: Mapping[bytes, bytes]) -> Attributes | None:
    """Returns None if no field is given. Header names are in lower case. Raises `InvalidAttribute`;
    `envelope.check_envelope` checks the permissions."""
    if not any(name.startswith(_PREFIX) for name in headers):
        return None
    given: dict[str, Any] = {}
    for field, key in _KEYS.items():
        value = headers.get(key)
        if value is None:
            continue
        if field in NUMBERS:
            given[field] = _number(field, value)
        elif field in OBJECTS:
            given[field] = _object(field, value)
        else:
            given[field] = _text(field, value)
    return Attributes(**given) if given else None


def check_header_names(
    headers: Mapping[bytes, bytes],
    others: Collection[str],
    parameters: Collection[str] = (),
    fields: bool = True,
) -> None:
    """Rejects an unknown `Hubbub-…` header, which the client would take for a part of the message.

    `others`: headers of the endpoint that are no envelope fields. `parameters`: the endpoint's
    query parameters. `fields`: whether the endpoint reads envelope fields from headers.

    A request of another hub passes: a webhook whose callback is this endpoint sends `Hubbub-Serial`
    and similar headers, and the other hub may be newer. Raises `InvalidAttribute`.
    """
    given = [name for name in headers if name.startswith(_PREFIX)]
    if not given or (b"hubbub-hub" in headers and any(each in headers for each in _OF_HUBS)):
        return
    known = [*(FIELDS.values() if fields else ()), *others]
    taken = {header.lower().encode() for header in known}
    wrong = next((name for name in given if name not in taken), None)
    if wrong is not None:
        name = wrong[:60].decode("latin-1").title()
        remedy = _remedy(name, known, parameters)
        raise InvalidAttribute(f"there is no header {name!r} here; {remedy}")


def _remedy(name: str, known: list[str], parameters: Collection[str]) -> str:
    parameter = name.removeprefix("Hubbub-").lower()
    if parameter in parameters:
        return f"give it as a parameter (?{parameter}=…)"
    if name in FIELDS.values():
        return "the messages of the body have it as a field"
    nearest = get_close_matches(name, known, 1, 0.75)
    return f"is it {nearest[0]}?" if nearest else f"there are {', '.join(known)}"


def _text(field: str, value: bytes) -> str:
    try:
        return unquote_to_bytes(value).decode()
    except UnicodeDecodeError:
        raise InvalidAttribute(f"{wire_name(field)} is no UTF-8 once it is decoded") from None


def _number(field: str, value: bytes) -> int:
    if not value.isdigit() or len(value) > _MAX_DIGITS:
        said = value[:40].decode("latin-1")
        raise InvalidAttribute(f"{wire_name(field)} is {said!r}; give a whole number from 0 on")
    return int(value)


def _object(field: str, value: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(value, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidAttribute(f"{wire_name(field)} is no JSON object: {error}") from None
