"""The id of an event is where its stream goes on: also after a gap that was announced."""

from __future__ import annotations

import pytest

from hubbub.domain.messages import JSON, Message
from hubbub.domain.notices import ChannelReset, DocumentInfo
from hubbub.gateways.encoders import SSE, SseVectorEncoder
from hubbub.protocols.sse import StreamPosition, decode_positions

pytestmark = pytest.mark.spec("LIVE-10")

RESET = ChannelReset("news", "two", 7)


def message(channel: str, serial: int) -> Message:
    return Message("m", channel, channel, "e", b"1", JSON, 1000, serial)


def positions(event: bytes) -> dict[str, tuple[str, int]]:
    (line,) = [line for line in event.split(b"\n") if line.startswith(b"id: ")]
    found = decode_positions(line.removeprefix(b"id: ").decode())
    return {channel: (at.epoch, at.serial) for channel, at in found.items()}


def test_after_a_reset_a_stream_goes_on_from_the_new_position() -> None:
    """It went on from the old one: who reconnected before the next message was thrown back."""
    assert positions(SSE.encode(RESET)) == {"news": ("two", 7)}


def test_after_a_reset_a_stream_of_several_channels_keeps_its_other_positions() -> None:
    encoder = SseVectorEncoder()
    encoder.encode_message(message("news", 3), "one")
    encoder.encode_message(message("sport", 4), "one")
    assert positions(encoder.encode(RESET)) == {"news": ("two", 7), "sport": ("one", 4)}
    following = encoder.encode_message(message("sport", 5), "one")
    assert positions(following) == {"news": ("two", 7), "sport": ("one", 5)}


def test_a_message_without_a_place_does_not_move_the_stream() -> None:
    encoder = SseVectorEncoder()
    encoder.encode_message(message("news", 3), "one")
    assert positions(encoder.encode_message(message("news", 0), "one")) == {"news": ("one", 3)}


@pytest.mark.spec("DOC-03", "ids of SSE carry the version")
def test_the_version_of_a_document_stays_in_the_ids_that_follow() -> None:
    encoder = SseVectorEncoder()
    encoder.encode_message(message("doc:a", 3), "one")
    assert b"id: " not in encoder.encode(DocumentInfo("doc:a", "e", 7, 0, 2))
    following = encoder.encode_message(message("doc:a", 4), "one")
    (line,) = [line for line in following.split(b"\n") if line.startswith(b"id: ")]
    found = decode_positions(line.removeprefix(b"id: ").decode())
    assert found == {"doc:a": StreamPosition("one", 4, "e", 7)}
