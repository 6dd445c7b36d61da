"""Server-sent events, read the way a browser reads them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.domain import errors, notices
from hubbub.domain.messages import BINARY, JSON, TEXT, Message
from hubbub.protocols import sse

name = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
serial = st.integers(0, 10**18 - 1)
position = st.tuples(name, serial).map(lambda at: sse.StreamPosition(*at))
document_position = st.tuples(name, serial, name, serial).map(lambda at: sse.StreamPosition(*at))


def read(stream: bytes) -> list[dict[str, str]]:
    """The events of a stream, as the HTML standard says to take it apart."""
    events = []
    for block in stream.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n\n"):
        fields: dict[str, str] = {}
        for line in block.split("\n"):
            field, _, value = line.partition(":")
            if field:
                assert field not in fields
                fields[field] = value.removeprefix(" ")
        if fields:
            events.append(fields)
    return events


@pytest.mark.spec("LIVE-02")
@settings(max_examples=60)
@given(
    name,
    name,
    st.sampled_from([(b'{"a":[1]}', JSON), (b"a\r\nb\n\ndata: c", TEXT), (b"\r\n\xff", BINARY)]),
)
def test_a_message_is_one_event_with_its_position(
    channel: str, event: str, content: tuple[bytes, str]
) -> None:
    message = Message("m1", "demo", channel, event, *content, 5, 42, "ana")

    (found,) = read(sse.encode_message(message, "abc.d.42"))

    assert found.keys() == {"id", "data"}
    assert found["id"] == "abc.d.42"
    data = json.loads(found["data"])
    assert (data["channel"], data["event"], data["channelSerial"]) == (channel, event, "42")


@pytest.mark.spec("LIVE-02")
def test_a_message_without_position_leaves_the_last_id_alone() -> None:
    message = Message("m1", "demo", "a", "", b"1", JSON, 5)

    (found,) = read(sse.encode_message(message, None))

    assert found.keys() == {"data"}


@pytest.mark.parametrize(
    ("notice", "event"),
    [
        (notices.SessionInfo("demo", "s", True, True, True, False, None, 25), "SessionInfo"),
        (notices.Subscribed(()), "Subscribe"),
        (notices.Presence("a", ()), "Presence"),
        (notices.Joined("a", ()), "Join"),
        (notices.Left("a", ()), "Leave"),
        (notices.Occupancy("a", 3), "Occupancy"),
        (notices.ChannelReset("a", "e", 1), "ChannelReset"),
        (notices.Unsubscribed(("a",)), "Unsubscribe"),
        (notices.Disconnect(errors.GoingAway("line\nbreak")), "Disconnect"),
        (notices.Failed(errors.Internal("x")), "Error"),
    ],
)
@pytest.mark.spec("LIVE-02")
def test_a_notice_is_an_event_of_its_name(notice: notices.Notice, event: str) -> None:
    (found,) = read(sse.encode(notice))

    assert found.keys() == {"event", "data"}
    assert found["event"] == event
    assert isinstance(json.loads(found["data"]), dict)


def test_a_notice_that_moves_the_position_carries_it() -> None:
    (found,) = read(sse.encode(notices.ChannelReset("a", "e", 1), "x.y.1"))

    assert found["id"] == "x.y.1"


def test_a_retained_message_has_the_name_of_messages() -> None:
    message = Message("m1", "demo", "a", "", b"1", JSON, 5)

    (found,) = read(sse.encode(notices.MessageDelivery(message, retained=True)))

    assert found.keys() == {"data"}
    assert json.loads(found["data"])["retained"] is True


@pytest.mark.spec("LIVE-02")
def test_heartbeats_and_retries_are_not_events() -> None:
    assert sse.heartbeat() == b":\n\n"
    assert read(sse.retry(3000)) == [{"retry": "3000"}]


@pytest.mark.spec("LIVE-02")
@settings(max_examples=100)
@given(st.dictionaries(name, position | document_position, max_size=5))
def test_positions_survive_the_browser(positions: dict[str, sse.StreamPosition]) -> None:
    event_id = sse.encode_positions(positions)

    assert sse.decode_positions(event_id) == positions
    assert event_id.isascii()
    assert not set(event_id) & set(" \r\n\0%&?#+/=")


@pytest.mark.parametrize(
    "garbage",
    [
        "x",
        "YQ..",
        "YQ.ZQ",
        "YQ.ZQ.-1",
        "YQ.ZQ.1.",
        "YQ.ZQ.1~",
        "~",
        "Y.ZQ.1",
        "YQ.ZQ.٣",
        "YQ.ZQ." + "1" * 19,
        "_w.ZQ.1",
        "é.ZQ.1",
        "YQ.ZQ.1\n",
        "YQ.ZQ.1~" * 2000,
    ],
)
@pytest.mark.spec("LIVE-02")
def test_garbage_is_not_a_position(garbage: str) -> None:
    with pytest.raises(errors.Malformed) as refused:
        sse.decode_positions(garbage)
    assert len(refused.value.message) < 120


@settings(max_examples=100)
@given(st.text("aQZ019._-~=é\n ", max_size=30))
def test_positions_are_read_or_malformed(event_id: str) -> None:
    try:
        positions = sse.decode_positions(event_id)
    except errors.Malformed:
        return
    assert sse.decode_positions(sse.encode_positions(positions)) == positions


@pytest.mark.spec("LIVE-02")
def test_an_id_that_does_not_fit_into_a_header_is_refused_when_it_is_made() -> None:
    with pytest.raises(errors.TooLarge, match="100 channels"):
        sse.encode_positions(
            {f"{number:0100}": sse.StreamPosition("e", 1) for number in range(100)}
        )
