"""MqttPacket ids, acknowledgements, and the window of a client."""

from __future__ import annotations

import pytest

from hubbub.protocols.mqtt.packets import PUBACK, PUBCOMP, PUBREC, PUBREL, V5, decode
from hubbub.protocols.mqtt.reasons import PacketError, Reason
from hubbub.protocols.mqtt.window import MAX_ID, DeliveryWindow, UnnumberedPublish
from hubbub.protocols.mqtt.writing import ack, publish

pytestmark = pytest.mark.spec("MQTT-03")


def message(qos: int, payload: bytes = b"") -> UnnumberedPublish:
    return UnnumberedPublish.of(publish(V5, "t", payload, qos, False), "t", "e", 0)


def id_of(written: bytes) -> int:
    return int.from_bytes(written[5:7])


def test_what_the_window_has_no_room_for_waits_in_order() -> None:
    window = DeliveryWindow(V5, 2)
    first, second = window.send(message(1)), window.send(message(2))
    assert (id_of(first), id_of(second)) == (1, 2)
    assert window.send(message(1, b"third")) == b""
    assert window.send(message(0, b"fourth")) == b""
    assert window.waiting_bytes == len(message(1, b"third")) + len(message(0, b"fourth"))
    released = window.acknowledged(PUBACK, 1, 0)
    assert released.endswith(b"third")
    assert id_of(released) == 3
    assert window.acknowledged(PUBREC, 2, 0) == ack(V5, PUBREL, 2)
    assert window.acknowledged(PUBCOMP, 2, 0).endswith(b"fourth")
    assert window.waiting_bytes == 0


def test_ids_in_flight_are_not_given_again() -> None:
    window = DeliveryWindow(V5, MAX_ID)
    for _ in range(MAX_ID):
        window.send(message(1))
    assert window.in_flight == MAX_ID
    assert window.send(message(1)) == b""
    released = window.acknowledged(PUBACK, 500, 0)
    assert id_of(released) == 500


def test_unknown_ids_are_answered_or_ignored() -> None:
    window = DeliveryWindow(V5, 5)
    assert window.acknowledged(PUBACK, 9, 0) == b""
    assert window.acknowledged(PUBCOMP, 9, 0) == b""
    unknown = window.acknowledged(PUBREC, 9, 0)
    assert unknown == ack(V5, PUBREL, 9, Reason.PACKET_ID_NOT_FOUND)
    assert decode(unknown[0], unknown[2:], V5)
    window.send(message(2))
    assert window.acknowledged(PUBREC, 9, Reason.QUOTA) == b""
    for kind in (PUBACK, PUBCOMP):
        with pytest.raises(PacketError):
            window.acknowledged(kind, 1, 0)
    assert window.in_flight == 1
    assert window.acknowledged(PUBREC, 1, Reason.QUOTA) == b""
    assert window.in_flight == 0
