"""The context of a trace, as W3C Trace Context writes it: `00-<trace id>-<span id>-<flags>`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from hubbub.domain.messages import Attributes, Message

HEADER: Final = "traceparent"
"""Of an HTTP request, and among the `headers` of a message."""
_KEY: Final = HEADER.encode()
_FORM: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)
_NOTHING: Final = Attributes()


def read_context(value: object) -> str | None:
    """None where `value` is not a trace context: by W3C, it is ignored and a new trace begins."""
    if not isinstance(value, str) or _FORM.fullmatch(value) is None:
        return None
    return value


def context_of_request(headers: Mapping[bytes, bytes]) -> str | None:
    """Of an HTTP request, whose header names are in lower case."""
    value = headers.get(_KEY)
    return None if value is None else read_context(value.decode("latin-1"))


def context_given(attributes: Attributes | None) -> str | None:
    """What the publisher gave: the header of the HTTP request, else that of the message."""
    if attributes is None:
        return None
    if attributes.traceparent is not None or attributes.headers is None:
        return attributes.traceparent
    return read_context(attributes.headers.get(HEADER))


def context_of(message: Message) -> str | None:
    """None where the message is not traced."""
    attributes = message.attributes
    return None if attributes is None else attributes.traceparent


def without_context(attributes: Attributes | None) -> Attributes | None:
    if attributes is None or attributes.traceparent is None:
        return attributes
    return msgspec.structs.replace(attributes, traceparent=None)


def with_context(attributes: Attributes | None, context: str | None) -> Attributes | None:
    """The same attributes in another span; None for the context leaves them as they are."""
    if context is None:
        return attributes
    return msgspec.structs.replace(attributes or _NOTHING, traceparent=context)
