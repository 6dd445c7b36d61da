"""The declaration of one event of the socket protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor
from msgspec import Struct

from hubbub.protocols import hubbub_pb2 as pb


class EventMapping(NamedTuple):
    """The event of this name is this domain struct, and travels as this message of
    spec/hubbub.proto."""

    name: str
    struct: type[Struct]
    message_name: str
    check: Callable[[Any], Any] | None = None
    """Checks a decoded request: returns it, or raises the problem."""
    answer: str | None = None
    """For an event with several structs: the value of `answer` that selects this struct."""

    @property
    def message(self) -> Descriptor:
        return pb.DESCRIPTOR.message_types_by_name[self.message_name]

    @property
    def number(self) -> int:
        return pb.EventType.Value(self.name)
