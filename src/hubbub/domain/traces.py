"""The context of a trace, as W3C Trace Context writes it: `00-<trace id>-<span id>-<flags>`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from hubbub.domain.asking import Sent, envelope_of
from hubbub.domain.messages import Attributes, Message

HEADER: Final = "traceparent"
"""The header of an HTTP request, and a key in a message's `headers`."""
_KEY: Final = HEADER.encode()
_FORM: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)
_NOTHING: Final = Attributes()


def read_context(value: object) -> str | None:
    """Returns None if `value` is not a valid trace context: per W3C, it is ignored and a new trace
    begins."""
    if not isinstance(value, str) or _FORM.fullmatch(value) is None:
        return None
    return value


def context_of_request(headers: Mapping[bytes, bytes]) -> str | None:
    """The context of an HTTP request, whose header names are in lower case."""
    value = headers.get(_KEY)
    return None if value is None else read_context(value.decode("latin-1"))


def context_given(attributes: Attributes | None) -> str | None:
    """The publisher's context: from the HTTP header, else from the message's header."""
    if attributes is None:
        return None
    if attributes.traceparent is not None or attributes.headers is None:
        return attributes.traceparent
    return read_context(attributes.headers.get(HEADER))


def context_of(sent: Sent) -> str | None:
    """Returns None if the message is not traced."""
    attributes = envelope_of(sent).attributes
    return None if attributes is None else attributes.traceparent


def without_context(attributes: Attributes | None) -> Attributes | None:
    if attributes is None or attributes.traceparent is None:
        return attributes
    return msgspec.structs.replace(attributes, traceparent=None)


def traced(sent: Sent, context: str | None) -> Sent:
    """A copy of a message, or of an ordered request, with another span."""
    if isinstance(sent, Message):
        attributes = with_context(sent.attributes, context)
        return msgspec.structs.replace(sent, attributes=attributes)
    return msgspec.structs.replace(sent, message=traced(sent.message, context))


def with_context(attributes: Attributes | None, context: str | None) -> Attributes | None:
    """Returns the attributes with another span; with a context of None, unchanged."""
    if context is None:
        return attributes
    return msgspec.structs.replace(attributes or _NOTHING, traceparent=context)
