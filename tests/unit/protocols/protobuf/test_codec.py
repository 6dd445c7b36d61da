"""The protobuf subprotocol, against the generated classes."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message import Message as Proto
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.domain import errors, notices, requests
from hubbub.domain.messages import BINARY, JSON, Attributes, Message
from hubbub.domain.requests import UndecodableRequest
from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.protobuf.codec import PROTOBUF_V1

E = pb.EventType
UNKNOWN: Any = 999
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


def frame(*envelopes: tuple[E, Proto | bytes]) -> bytes:
    return pb.Frame(
        envelopes=[
            pb.Envelope(
                event=event, payload=it if isinstance(it, bytes) else it.SerializeToString()
            )
            for event, it in envelopes
        ]
    ).SerializeToString()


def rejection(event: E, payload: Proto | bytes) -> UndecodableRequest:
    (rejected,) = PROTOBUF_V1.decode(frame((event, payload)))
    assert isinstance(rejected, UndecodableRequest)
    return rejected


@pytest.mark.spec("LIVE-01")
@settings(max_examples=100)
@given(
    channel=text,
    event=text,
    payload=st.binary(min_size=1, max_size=300) | st.sampled_from([b"x" * 20_000, b"y" * 70_000]),
    msg_id=text.filter(bool),
    time=st.integers(1, 2**63 - 1),
    serial=st.integers(0, 10**18 - 1),
    content_type=st.sampled_from([JSON, BINARY, "a/" + "b" * 200]),
    publisher=st.none() | text,
)
def test_deliveries_made_by_hand_are_those_of_the_generated_classes(
    channel: str,
    event: str,
    payload: bytes,
    msg_id: str,
    time: int,
    serial: int,
    content_type: str,
    publisher: str | None,
) -> None:
    message = Message(
        msg_id, "demo", channel, event, payload, content_type, time, serial, publisher
    )

    expected = pb.ChannelPublish(
        channel=channel,
        event=event,
        payload=payload,
        msg_id=msg_id,
        timestamp=time,
        channel_serial=str(serial) if serial else None,
        content_type=content_type,
        publisher=publisher or "",
    )
    assert PROTOBUF_V1.encode_message(message) == frame((E.Publish, expected))


def test_a_delivery_may_be_empty_and_of_1970() -> None:
    message = Message("", "demo", "", "", b"", BINARY, 0)

    (envelope,) = pb.Frame.FromString(PROTOBUF_V1.encode_message(message)).envelopes

    assert pb.ChannelPublish.FromString(envelope.payload) == pb.ChannelPublish(content_type=BINARY)


@pytest.mark.spec("LIVE-01")
def test_bad_envelopes_do_not_hurt_the_good_ones() -> None:
    first, unknown, hub_only, broken, last = PROTOBUF_V1.decode(
        frame(
            (E.Ping, pb.Heartbeat(req_id=1)),
            (UNKNOWN, b""),
            (E.Ack, b""),
            (E.Subscribe, b"\xff"),
            (E.Pong, b""),
        )
    )

    assert (first, last) == (requests.Ping(1), requests.Pong())
    assert isinstance(unknown, UndecodableRequest)
    assert isinstance(unknown.error, errors.UnknownEvent)
    assert "'999'" in unknown.error.message
    assert isinstance(hub_only, UndecodableRequest)
    assert isinstance(hub_only.error, errors.UnknownEvent)
    assert "Ack" in hub_only.error.message
    assert isinstance(broken, UndecodableRequest)
    assert isinstance(broken.error, errors.Malformed)
    assert broken.error.message.startswith("Subscribe: ")


@pytest.mark.parametrize(
    ("event", "payload", "named"),
    [
        (E.Auth, pb.AuthRequest(req_id=7), "token"),
        (E.Auth, pb.AuthRequest(req_id=7, token="a", credentials=b"b"), "credentials"),
        (
            E.Subscribe,
            pb.SubscribeRequest(req_id=7, channels=[pb.ChannelSubscribeInfo(serial="")]),
            "channels[0].serial",
        ),
        (E.Subscribe, b"\x08\x07\x12\x04\x0a\x02\xff\xfe", "UTF-8"),
        (E.Unsubscribe, b"\x08\x07\x12\x02\xff\xfe", "UTF-8"),
        (E.History, pb.HistoryRequest(req_id=7, after="-1"), "after"),
        (E.History, pb.HistoryRequest(req_id=7, before="9" * 19), "before"),
        (E.History, pb.HistoryRequest(req_id=7, limit=-1), "limit"),
        (E.History, pb.HistoryRequest(req_id=7, after="1", after_time=1), "afterTime"),
        (E.Presence, b"\x08\x07\x12\x02\xff\xfe", "UTF-8"),
    ],
)
@pytest.mark.spec("LIVE-01", "LIVE-17")
def test_a_mistake_is_answered_with_the_event_and_field(
    event: E, payload: Proto | bytes, named: str
) -> None:
    rejected = rejection(event, payload)

    assert isinstance(rejected.error, errors.Malformed)
    assert rejected.error.message.startswith(f"{E.Name(event)}: ")
    assert named in rejected.error.message
    assert rejected.req_id == 7


@pytest.mark.parametrize(
    "restore",
    [
        pb.SessionRestoreNotice(),
        pb.SessionRestoreNotice(restore_key="k", positions=[pb.Position(channel="a")]),
    ],
)
def test_a_restore_needs_a_key_and_serials(restore: pb.SessionRestoreNotice) -> None:
    assert isinstance(rejection(E.SessionRestore, restore).error, errors.Malformed)


@pytest.mark.parametrize(
    ("payload", "content_type", "expected"),
    [
        (b"\xff", "", (b"\xff", BINARY)),
        (b'{"a":\r\n1}', "application/json", (b'{"a":  1}', JSON)),
        (b"[1]", "application/geo+json; v=1", (b"[1]", JSON)),
        (b"a\nb", "text/plain; charset=utf-8", (b"a\nb", "text/plain")),
        (b"\xff", "Image/PNG", (b"\xff", "Image/PNG")),
    ],
)
@pytest.mark.spec("LIVE-01")
def test_a_payload_is_checked_against_its_content_type(
    payload: bytes, content_type: str, expected: tuple[bytes, str]
) -> None:
    item = pb.PubRequestInfo(channel="a", payload=payload, content_type=content_type)

    (found,) = PROTOBUF_V1.decode(frame((E.Publish, pb.ChannelPubRequest(publishes=[item]))))

    spelt = None if content_type in ("", expected[1]) else Attributes(media_type=content_type)
    assert found == requests.Publish((requests.PublishItem("a", "", *expected, attributes=spelt),))


@pytest.mark.parametrize(
    ("payload", "content_type"),
    [
        (b"", "application/json"),
        (b"{", "application/json"),
        (b'"\xff"', "application/json"),
        (b"\xff", "text/plain"),
        (b"", "é/é"),
        (b"", "a" * 256),
    ],
)
def test_a_payload_that_is_not_what_it_claims_is_rejected(
    payload: bytes, content_type: str
) -> None:
    item = pb.PubRequestInfo(channel="a", payload=payload, content_type=content_type, req_id=3)

    rejected = rejection(E.Publish, pb.ChannelPubRequest(publishes=[item]))

    assert isinstance(rejected.error, errors.InvalidPayload)
    assert rejected.req_id == 3


def test_a_request_id_of_zero_still_asks_for_a_reply() -> None:
    items = [pb.PubRequestInfo(channel="a", req_id=0), pb.PubRequestInfo(channel="a")]

    (found,) = PROTOBUF_V1.decode(frame((E.Publish, pb.ChannelPubRequest(publishes=items))))

    assert isinstance(found, requests.Publish)
    assert [item.req_id for item in found.items] == [0, None]


def test_a_client_skips_events_of_newer_hubs() -> None:
    sent = frame((UNKNOWN, b"\xff"), (E.Pong, pb.Heartbeat(req_id=1)))

    assert PROTOBUF_V1.decode_notices(sent) == [notices.Pong(1)]


@pytest.mark.parametrize(
    "sent",
    [
        b"\xff",
        frame((E.Subscribe, b"\xff")),
        frame((E.Auth, pb.AuthResponse(extra=b"{"))),
        frame((E.Auth, pb.AuthResponse(extra=b'{"a":"\xff"}'))),
        frame((E.Auth, pb.AuthResponse(extra=b'{"a":' + b"[" * 10_000))),
        frame((E.Publish, pb.ChannelPublish(channel_serial="x"))),
    ],
)
def test_a_client_names_what_it_cannot_read(sent: bytes) -> None:
    with pytest.raises(errors.Malformed, match="the hub's"):
        PROTOBUF_V1.decode_notices(sent)
