"""The structs of the domain and the messages of spec/hubbub.proto say the same."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from google.protobuf.descriptor import Descriptor

from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.events import NOTICES, REQUESTS
from hubbub.protocols.mapping import Kind, covered, descriptor, error_fields, members

ONLY_OVER_NATS = (
    "ServiceCall",
    "ServiceAnswer",
    "StreamEvent",
    "ProviderRequest",
    "ProviderAnswer",
    "AdminRequest",
    "AdminPublishRequest",
    "AdminReply",
)


MADE_OF_JSON = ("DocumentValue", "DocumentOp")
"""By `protobuf.documents`; in the domain they are JSON texts."""


def lying(struct: type[msgspec.Struct], message: Descriptor) -> Iterator[tuple[str, str]]:
    """The fields of messages that a struct, and those inside it, give: message and field."""
    yield from ((message.name, field) for field in covered(struct, message))
    for member in members(struct, message):
        inner = member.message or message
        if member.wire.inside and member.field is not None:
            assert member.field.containing_type is not None
            yield member.field.containing_type.name, member.field.name
        elif member.kind is Kind.ERROR:
            yield from ((inner.name, field) for field in error_fields(inner))
        elif member.kind is Kind.STRUCT and not member.wire.local:
            yield from lying(member.type, inner)


@pytest.mark.spec("LIVE-01")
def test_the_structs_have_every_field_of_the_proto() -> None:
    found = {pair for event in (*REQUESTS, *NOTICES) for pair in lying(event.struct, event.message)}

    assert found == {
        (message.name, field.name)
        for message in pb.DESCRIPTOR.message_types_by_name.values()
        if message.name
        not in ("Frame", "Envelope", "NotificationItem", *MADE_OF_JSON, *ONLY_OVER_NATS)
        for field in message.fields
    }


@pytest.mark.spec("LIVE-01")
def test_the_table_has_every_event_of_the_proto() -> None:
    assert {event.name for event in (*REQUESTS, *NOTICES)} == set(pb.EventType.keys()) - {
        "UNSPECIFIED"
    }


class Heartbeats(msgspec.Struct):
    req_id: int = 0
    beats: int = 0


class TextBeat(msgspec.Struct):
    req_id: str = ""


@pytest.mark.spec("LIVE-01")
@pytest.mark.parametrize(
    ("struct", "named"), [(Heartbeats, "`beats`"), (TextBeat, "TextBeat.req_id")]
)
def test_a_struct_that_differs_from_its_message_is_refused(
    struct: type[msgspec.Struct], named: str
) -> None:
    with pytest.raises(TypeError, match=named):
        members(struct, descriptor(pb.Heartbeat))
