"""Documents and operations in the protocol, as JSON texts that the owner of a document reads and
writes. The gateways convert them to and from other encodings."""

from __future__ import annotations

from typing import Any

import msgspec


class JsonText(msgspec.Struct, frozen=True):
    """A value of a document, as JSON text."""

    text: bytes
    prepared: Any = None
    """The value in another encoding, if it was encoded in steps (`Encoder.prepare`)."""


class JsonList(msgspec.Struct, frozen=True):
    """A list of operations, as JSON text."""

    text: bytes
