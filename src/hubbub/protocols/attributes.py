"""The attributes of messages that are on the wire."""

from __future__ import annotations

import msgspec

from hubbub.domain.messages import Attributes
from hubbub.protocols import hubbub_pb2 as pb

_COUNT = len(pb.Attributes.DESCRIPTOR.fields)
"""The first fields of the struct are on the wire; the others are internal."""
_NOTHING = (None,) * _COUNT


def says_nothing(attributes: Attributes) -> bool:
    """Whether no attribute is visible to clients: for puts, the hub stores only the producer
    there."""
    return msgspec.structs.astuple(attributes)[:_COUNT] == _NOTHING
