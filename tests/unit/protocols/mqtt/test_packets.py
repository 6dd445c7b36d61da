"""Packets of clients: what is read, and what is refused."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.devices import PING, connect, publish, subscribe, unsubscribe
from hubbub.protocols.mqtt.fields import (
    MAX_USER_PROPERTIES,
    PUBLISH_PROPERTIES,
    Body,
    Property,
    variable,
)
from hubbub.protocols.mqtt.packets import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    V3,
    V5,
    Connect,
    MqttPacket,
    MqttReader,
    PublishPacket,
    SubscribePacket,
    UnsubscribePacket,
    UnsupportedVersion,
    Will,
    decode,
)
from hubbub.protocols.mqtt.reasons import PacketError, Reason
from hubbub.protocols.mqtt.writing import ack, numbered, packet
from hubbub.protocols.mqtt.writing import publish as write_publish

pytestmark = pytest.mark.spec("MQTT-05")

_USER = (Property.USER, ("name", "value"))
_ALL = [
    connect(V3), connect(V5, given=((Property.SESSION_EXPIRY, 9), _USER)),
    connect(V5, will=("a", b"x", 1, True), user_name="u", password=b"p",
            will_given=((Property.WILL_DELAY, 3), (Property.CORRELATION, b"c"))),
    publish("a/b", b"payload", given=((Property.MESSAGE_EXPIRY, 9), (Property.CONTENT_TYPE, "t"))),
    publish("a", b"payload", 1, 7), publish("a", b"payload", 2, 8, version=V3),
    subscribe(("a/+", 1), ("b/#", 2), given=((Property.SUBSCRIPTION_ID, 300),)),
    unsubscribe("a/+", "b"), PING, b"\xe0\x00", b"\xe0\x02\x04\x00",
    *[ack(V5, kind, 9) for kind in (PUBACK, PUBREC, PUBREL, PUBCOMP)],
    b"\xf0\x10\x19\x0e\x15\x00\x06method\x16\x00\x02ab",
]  # fmt: skip


def read(data: bytes, version: int = V5, most: int = 1 << 20) -> MqttPacket:
    reader = MqttReader(most)
    if data[0] >> 4 != 1:
        reader.version = version
    reader.feed(data)
    found = reader.next()
    assert found is not None
    return found


def reason_of(data: bytes, version: int = V5) -> Reason:
    with pytest.raises(PacketError) as refused:
        read(data, version)
    return refused.value.reason


def test_a_connect_says_all_that_it_can_say() -> None:
    data = connect(
        V5, "id", False, 30, "user", b"\xff", ("t", b"gone", 2, True),
        ((Property.RECEIVE_MAXIMUM, 5),), ((Property.WILL_DELAY, 9),),
    )  # fmt: skip
    will = Will("t", b"gone", 2, True, {Property.WILL_DELAY: 9})
    expected = Connect(
        V5, "id", False, 30, "user", b"\xff", will, {Property.RECEIVE_MAXIMUM: 5}
    )  # fmt: skip
    assert read(data) == expected


def test_filters_have_options() -> None:
    found = read(subscribe(("a", 0b00101110), given=((Property.SUBSCRIPTION_ID, 9),)))
    assert isinstance(found, SubscribePacket)
    (wanted,) = found.filters
    assert (wanted.qos, wanted.no_local, wanted.retain_as_published) == (2, True, True)
    assert (wanted.retain_handling, found.identifier) == (2, 9)
    assert read(unsubscribe("a", "b")) == UnsubscribePacket(1, ("a", "b"))


@pytest.mark.parametrize("data", _ALL, ids=lambda data: data.hex()[:20])
def test_a_packet_arrives_in_any_pieces(data: bytes) -> None:
    version = V3 if data == publish("a", b"payload", 2, 8, version=V3) else V5
    whole = read(data, version)
    for size in range(1, len(data)):
        reader = MqttReader(1 << 20)
        if data[0] >> 4 != 1:
            reader.version = version
        found = []
        for at in range(0, len(data), size):
            reader.feed(data[at : at + size])
            found.append(reader.next())
        assert found.pop() == whole
        assert set(found) <= {None} or not found
        assert reader.held_bytes == 0


@pytest.mark.parametrize("data", _ALL, ids=lambda data: data.hex()[:20])
def test_a_body_that_ends_early_is_refused_or_another_packet_but_never_a_crash(
    data: bytes,
) -> None:
    at = 1
    while data[at] >= 0x80:
        at += 1
    body = data[at + 1 :]
    for end in range(len(body)):
        for version in (V3, V5):
            with contextlib.suppress(PacketError):
                decode(data[0], body[:end], version)


@pytest.mark.parametrize("data", _ALL, ids=lambda data: data.hex()[:20])
def test_reserved_bits_are_refused(data: bytes) -> None:
    kind = data[0] >> 4
    if kind == 3:
        assert reason_of(bytes((0x36,)) + data[1:]) == Reason.MALFORMED
        assert reason_of(bytes((0x38,)) + data[1:]) == Reason.MALFORMED
        return
    for flags in range(16):
        if flags != data[0] & 15:
            assert reason_of(bytes((kind << 4 | flags,)) + data[1:]) == Reason.MALFORMED


@pytest.mark.parametrize("kind", range(16))
def test_what_only_servers_send_and_what_does_not_exist_is_refused(kind: int) -> None:
    if kind in (0, 2, 9, 11, 13):
        expected = Reason.MALFORMED if kind == 0 else Reason.PROTOCOL_ERROR
        assert reason_of(bytes((kind << 4, 0))) == expected


def test_a_length_has_one_to_four_bytes() -> None:
    for size in range(1, 5):
        length = b"\x80" * (size - 1) + b"\x00"
        assert read(b"\xc0" + length) == read(PING)
    assert reason_of(b"\xc0\x80\x80\x80\x80\x01") == Reason.MALFORMED


def test_a_packet_over_the_limit_is_refused_before_it_has_arrived() -> None:
    reader = MqttReader(100)
    reader.version = V5
    reader.feed(b"\x30" + variable(99))
    with pytest.raises(PacketError) as refused:
        reader.next()
    assert refused.value.reason == Reason.TOO_LARGE
    assert isinstance(read(publish("a", b"x" * 92), most=100), PublishPacket)


def test_the_first_packet_is_connect_and_the_only_one() -> None:
    reader = MqttReader(100)
    reader.feed(b"\xc0")
    with pytest.raises(PacketError):
        reader.next()
    reader = MqttReader(100)
    reader.feed(connect() * 2)
    assert isinstance(reader.next(), Connect)
    with pytest.raises(PacketError) as refused:
        reader.next()
    assert refused.value.reason == Reason.PROTOCOL_ERROR


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (publish("a/#", b""), Reason.MALFORMED),
        (publish("", b""), Reason.PROTOCOL_ERROR),
        (publish("a\x00"), Reason.MALFORMED),
        (publish("a\x01"), Reason.MALFORMED),
        (publish("a", b"", 1, 0), Reason.PROTOCOL_ERROR),
        (packet(3, b"\x00\x02\xc3\x28\x00"), Reason.MALFORMED),
        (packet(3, b"\x00\x03\xed\xa0\x80\x00"), Reason.MALFORMED),
        (publish("a", given=((Property.TOPIC_ALIAS, 0),)), Reason.ALIAS_INVALID),
        (publish("a", given=((Property.SUBSCRIPTION_ID, 1),)), Reason.PROTOCOL_ERROR),
        (publish("a", given=((Property.PAYLOAD_FORMAT, 2),)), Reason.PROTOCOL_ERROR),
        (publish("a", given=((Property.RESPONSE_TOPIC, "a/#"),)), Reason.PROTOCOL_ERROR),
        (publish("a", given=((Property.CONTENT_TYPE, "a"),) * 2), Reason.PROTOCOL_ERROR),
        (publish("a", given=(_USER,) * (MAX_USER_PROPERTIES + 1)), Reason.QUOTA),
        (publish("a", given=((Property.USER, ("n", "x" * 9000)),)), Reason.QUOTA),
        (packet(3, b"\x00\x01a\x02\x7f\x00"), Reason.MALFORMED),
        (subscribe(), Reason.PROTOCOL_ERROR),
        (subscribe(("a", 3)), Reason.MALFORMED),
        (subscribe(("a", 0x40)), Reason.MALFORMED),
        (subscribe(("a", 0x30)), Reason.MALFORMED),
        (subscribe(("a#", 0)), Reason.MALFORMED),
        (subscribe(("#/a", 0)), Reason.MALFORMED),
        (subscribe(("a+", 0)), Reason.MALFORMED),
        (subscribe(("", 0)), Reason.MALFORMED),
        (subscribe(("a", 0), packet_id=0), Reason.PROTOCOL_ERROR),
        (subscribe(("a", 0), given=((Property.SUBSCRIPTION_ID, 0),)), Reason.PROTOCOL_ERROR),
        (subscribe(*[("a", 0)] * 101), Reason.QUOTA),
        (unsubscribe(), Reason.PROTOCOL_ERROR),
        (b"\xc0\x01\x00", Reason.MALFORMED),
        (b"\x40\x03\x00\x01\x33", Reason.MALFORMED),
        (connect(given=((Property.RECEIVE_MAXIMUM, 0),)), Reason.PROTOCOL_ERROR),
        (connect(given=((Property.MAXIMUM_PACKET, 0),)), Reason.PROTOCOL_ERROR),
        (connect(given=((Property.AUTH_DATA, b"x"),)), Reason.PROTOCOL_ERROR),
        (connect(V3, password=b"p"), Reason.MALFORMED),
        (connect(will=("a/+", b"", 0, False)), Reason.MALFORMED),
        (connect(will=("a", b"", 3, False)), Reason.MALFORMED),
        (connect()[:9] + b"\x03" + connect()[10:], Reason.MALFORMED),
    ],
)  # fmt: skip
def test_bad_input_has_the_reason_that_the_specification_gives(data: bytes, reason: Reason) -> None:
    assert reason_of(data) == reason


@pytest.mark.parametrize("level", [3, 6])
def test_other_versions_of_the_protocol_are_refused_by_name(level: int) -> None:
    data = connect(V5)
    with pytest.raises(UnsupportedVersion):
        read(data[:8] + bytes((level,)) + data[9:])
    with pytest.raises(UnsupportedVersion):
        read(packet(1, b"\x00\x06MQIsdp\x03\x02\x00\x3c\x00\x01a"))
    assert reason_of(data[:4] + b"MQTX" + data[8:]) == Reason.MALFORMED


@given(st.binary(max_size=60), st.sampled_from([V3, V5]), st.integers(0, 255))
def test_no_bytes_make_the_reader_fail_in_another_way(
    body: bytes, version: int, first: int
) -> None:
    reader = MqttReader(1000)
    reader.version = version
    reader.feed(bytes((first,)) + variable(len(body)) + body)
    with contextlib.suppress(PacketError):
        assert reader.next() is not None


@given(st.integers(0, 268_435_455))
def test_lengths_are_read_as_they_were_written(value: int) -> None:
    assert Body(variable(value)).variable() == value


@given(
    st.text(st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="+#"), min_size=1,
            max_size=40),
    st.binary(max_size=300),
    st.sampled_from([1, 2]),
    st.integers(1, 65_535),
)  # fmt: skip
def test_a_packet_id_is_put_into_a_packet_that_was_written_without(
    topic: str, payload: bytes, qos: int, packet_id: int
) -> None:
    for version in (V3, V5):
        written = numbered(write_publish(version, topic, payload, qos, True), packet_id, True)
        found = read(written, version)
        assert found == PublishPacket(topic, payload, qos, True, True, packet_id)


def test_properties_are_those_of_the_table() -> None:
    body = Body(b"\x0b" + b"\x01\x01" + b"\x02\x00\x00\x00\x07" + b"\x03\x00\x01t")
    assert body.properties(PUBLISH_PROPERTIES) == {
        Property.PAYLOAD_FORMAT: 1,
        Property.MESSAGE_EXPIRY: 7,
        Property.CONTENT_TYPE: "t",
    }
