"""What the load generator sends."""

import pytest
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, TextMessage

from benchmarks.load.wire import Framing, frame, mqtt_publish, post


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536])
def test_frames_are_read_by_another_implementation(size: int) -> None:
    server = Connection(ConnectionType.SERVER)
    server.receive_data(frame(Framing.BINARY, b"x" * size))

    events = [event for event in server.events() if isinstance(event, BytesMessage)]
    assert b"".join(event.data for event in events) == b"x" * size


def test_text_frames_are_text() -> None:
    server = Connection(ConnectionType.SERVER)
    server.receive_data(frame(Framing.TEXT, b"hello"))

    assert [event.data for event in server.events() if isinstance(event, TextMessage)] == ["hello"]


def test_raw_bytes_are_sent_as_they_are() -> None:
    assert frame(Framing.RAW, b"PING\r\n") == b"PING\r\n"


def test_mqtt_length_counts_what_a_template_will_add() -> None:
    assert mqtt_publish(b"t", b"@stamp@", 12)[:2] == bytes([0x30, 3 + 19])


def test_post_announces_the_size_of_the_filled_body() -> None:
    request = post("/x", b"@stamp@", 19, "Authorization: Bearer t")

    assert b"\r\nContent-Length: 19\r\n" in request
    assert request.endswith(b"\r\nAuthorization: Bearer t\r\n\r\n@stamp@")
