"""Documents and operations on their way through the protocol: as JSON texts, which the owner of a
document writes and reads. Other encodings are made of them, and made into them, at the edge."""

from __future__ import annotations

import msgspec


class JsonText(msgspec.Struct, frozen=True):
    """A value of a document."""

    text: bytes


class JsonList(msgspec.Struct, frozen=True):
    """A list of operations."""

    text: bytes
