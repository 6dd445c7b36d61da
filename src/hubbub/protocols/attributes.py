"""Attributes of messages, as far as they are on the wire."""

from __future__ import annotations

import msgspec

from hubbub.domain.messages import Attributes
from hubbub.protocols import hubbub_pb2 as pb

_COUNT = len(pb.Attributes.DESCRIPTOR.fields)
"""Those that are on the wire come first in the struct; the hub keeps the rest to itself."""
_NOTHING = (None,) * _COUNT


def says_nothing(attributes: Attributes) -> bool:
    """Of puts, the hub keeps the producer in the attributes, and clients see nothing of it."""
    return msgspec.structs.astuple(attributes)[:_COUNT] == _NOTHING
