"""Messages to peers: what is refused, what is kept, and what the hub says by itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.communication.contents import payload_of, text_or_bytes
from hubbub.domain.communication.control import copy_to, redacted, report_on
from hubbub.domain.communication.information import read_question
from hubbub.domain.communication.messages import (
    PeerMessage,
    awaits_reply,
    check_handed_in,
    check_sent,
    digest,
    kind_of,
    may_reply,
    name_of,
)
from hubbub.domain.communication.peers import (
    PeerInfo,
    PrivacyPolicy,
    TimeWindow,
    check_identifier,
    read_collective,
    read_peer,
)
from hubbub.domain.communication.policies import DeliveryVerdict
from hubbub.domain.communication.privacy import is_taken, is_within
from hubbub.domain.communication.wire import from_wire, to_wire
from hubbub.domain.errors import InvalidAttribute, InvalidName
from hubbub.engine.communication.log_messages import from_logged, to_logged

MESSAGE = PeerMessage(
    id="m1", type="ALARM", subtype="fire", sender="desk", receiver="ann", conversation_id="c1"
)


def changed(**fields: object) -> PeerMessage:
    return msgspec.structs.replace(MESSAGE, **fields)


@pytest.mark.spec("COMM-01")
def test_kinds_of_receivers_are_told_by_their_prefix() -> None:
    assert [kind_of(each) for each in ("ann", "collective:x", "component:y")] == [
        "peer",
        "collective",
        "component",
    ]
    assert name_of("collective:x") == "x"


@pytest.mark.spec("COMM-11", "COMM-07")
@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"type": ""}, "type is missing"),
        ({"subtype": ""}, "subtype is missing"),
        ({"sender": ""}, "sender is missing"),
        ({"type": "CONTROL"}, "only the hub sends"),
        ({"type": "AUTH"}, "only the hub sends"),
        ({"receiver": "collective:"}, "receiver is 'collective:'"),
        ({"ttl_ms": -1}, "ttl is -1"),
        ({"id": "x" * 300}, "id is"),
        ({"type": "a\x00b"}, "type is"),
        ({"security_token": "x" * 5000}, "securityToken"),
        ({"headers": {"a": "x" * 9000}}, "headers"),
    ],
)
def test_a_message_out_of_bounds_is_refused_and_the_field_is_named(
    fields: dict[str, object], problem: str
) -> None:
    with pytest.raises(InvalidAttribute, match=problem):
        check_sent(changed(**fields))


@pytest.mark.spec("COMM-01")
def test_the_digest_tells_messages_with_one_id_apart_but_not_repeats() -> None:
    assert digest(MESSAGE) == digest(changed(security_token="newer"))
    assert digest(MESSAGE) != digest(changed(content="other"))
    assert digest(MESSAGE) != digest(changed(receiver="bob"))


@pytest.mark.spec("COMM-04")
def test_a_copy_has_its_own_receiver_the_same_id_and_what_it_refers_to() -> None:
    copy = copy_to(changed(refers_to="m0", security_token="secret"), "bob")
    assert (copy.receiver, copy.id, copy.refers_to) == ("bob", "m1", "m0")
    assert copy.security_token == ""


@pytest.mark.spec("COMM-05", "COMM-07")
@pytest.mark.parametrize(
    ("message", "receiver", "verdict", "subtype"),
    [
        (MESSAGE, "ann", DeliveryVerdict("met"), None),
        (changed(delivery_policy="ACKNOWLEDGED"), "ann", DeliveryVerdict("met"), "ACK"),
        (MESSAGE, "ann", DeliveryVerdict("failed", "r"), "COMERROR"),
        (MESSAGE, "ann", DeliveryVerdict("failed", "r", tried=False), "DELIVERYERROR"),
        (MESSAGE, "collective:x", DeliveryVerdict("failed", "ann: r"), "DELIVERYERROR"),
        (MESSAGE, "ann", DeliveryVerdict("timed_out", "r"), "TIMEOUT"),
        (changed(type="CONTROL"), "ann", DeliveryVerdict("failed", "r"), None),
        (changed(type="AUTH"), "ann", DeliveryVerdict("failed", "r"), None),
        (changed(type="MESSAGEINFO", subtype="REPLY"), "ann", DeliveryVerdict("failed", "r"), None),
    ],
)
def test_the_sender_is_told_of_failures_always_and_of_success_if_asked(
    message: PeerMessage, receiver: str, verdict: DeliveryVerdict, subtype: str | None
) -> None:
    report = report_on(message, receiver, verdict)
    assert (report and report.subtype) == subtype
    if report is not None:
        assert (report.type, report.sender, report.receiver) == ("CONTROL", receiver, "desk")
        assert (report.refers_to, report.conversation_id) == ("m1", "c1")
        assert report.delivery_policy == "UNACKNOWLEDGED"
        assert report.content == verdict.reason


@pytest.mark.spec("COMM-07")
def test_the_log_keeps_neither_tokens_nor_passwords() -> None:
    assert redacted(changed(security_token="secret")).security_token == ""
    login = changed(type="AUTH", subtype="REQUEST", content="password")
    assert "password" not in redacted(login).content
    assert redacted(MESSAGE) is MESSAGE


@pytest.mark.spec("COMM-07")
def test_messages_of_the_hub_are_nobodys_answer() -> None:
    assert may_reply(changed(refers_to="m0"))
    assert not may_reply(changed(refers_to=""))
    for kind in ("CONTROL", "AUTH", "MESSAGEINFO"):
        assert not may_reply(changed(type=kind, refers_to="m0"))


@pytest.mark.spec("COMM-10")
def test_a_header_says_that_a_reply_is_awaited() -> None:
    assert awaits_reply(changed(headers={"await": "reply"}))
    assert not awaits_reply(MESSAGE)


@pytest.mark.spec("COMM-05")
def test_the_reports_other_names_of_policies_are_taken() -> None:
    assert read_peer({"policy": "TO_ALL"}).policy == "TO_ALL_CHANNELS"
    assert read_peer({"policy": "TO_ANY"}).policy == "AT_LEAST_ONE"


@pytest.mark.spec("COMM-01")
def test_members_count_once_and_wrong_input_names_its_field() -> None:
    assert read_collective({"members": ["a", "b", "a"]}).members == ("a", "b")
    with pytest.raises(InvalidAttribute, match="polcy"):
        read_peer({"polcy": "PREFERRED"})
    with pytest.raises(InvalidAttribute, match="Mars/Olympus"):
        read_peer(
            {
                "privacy": [
                    {
                        "effect": "deny",
                        "during": {"begins": "22:00", "ends": "06:00", "zone": "Mars/Olympus"},
                    }
                ]
            }
        )
    with pytest.raises(InvalidName, match="collective:x"):
        check_identifier("collective:x", "peer")


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.spec("COMM-06")
@pytest.mark.parametrize(
    ("window", "time", "inside"),
    [
        (TimeWindow("08:00", "17:00"), "2026-01-05T08:00", True),
        (TimeWindow("08:00", "17:00"), "2026-01-05T17:00", False),
        (TimeWindow("22:00", "06:00"), "2026-01-05T23:59", True),
        (TimeWindow("22:00", "06:00"), "2026-01-05T05:59", True),
        (TimeWindow("22:00", "06:00"), "2026-01-05T12:00", False),
        (TimeWindow("08:00", "09:00", "Europe/Vienna"), "2026-01-05T07:30", True),
        (TimeWindow("08:00", "09:00", "Europe/Vienna"), "2026-07-05T06:30", True),
    ],
)
def test_windows_of_time_know_zones_and_midnight(
    window: TimeWindow, time: str, inside: bool
) -> None:
    assert is_within(window, at(time)) is inside


@pytest.mark.spec("COMM-06")
def test_all_privacy_policies_must_agree_and_auth_always_passes() -> None:
    noon = at("2026-01-05T12:00")
    quiet = PrivacyPolicy("deny", during=TimeWindow("22:00", "06:00"))
    only_alarms = PrivacyPolicy("allow", types=("ALARM",))
    peer = PeerInfo(privacy=(quiet, only_alarms))
    assert is_taken(peer, MESSAGE, noon)
    assert not is_taken(peer, MESSAGE, at("2026-01-05T23:00"))
    assert not is_taken(peer, changed(type="ADVERT"), noon)
    assert is_taken(peer, changed(type="AUTH"), at("2026-01-05T23:00"))
    german_spam = PrivacyPolicy("deny", senders=("desk",), languages=("de",), subtypes=("fire",))
    assert is_taken(PeerInfo(privacy=(german_spam,)), changed(language="en"), noon)
    assert not is_taken(PeerInfo(privacy=(german_spam,)), changed(language="de"), noon)


@pytest.mark.spec("COMM-08")
def test_a_question_for_message_info_names_a_type_or_an_id() -> None:
    assert read_question('{"type":"a","subtype":"b"}').subtype == "b"
    assert read_question('{"id":"m1"}').id == "m1"
    for content in ("", "[]", "{}", '{"type":"a"}'):
        with pytest.raises(InvalidAttribute, match="MESSAGEINFO/REQUEST"):
            read_question(content)


@pytest.mark.spec("COMM-12")
@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_any_content_is_the_same_on_the_wire_in_the_log_and_on_a_channel(data: bytes) -> None:
    content = text_or_bytes(data)
    message = check_sent(changed(content=content))
    assert payload_of(content)[0] == data
    assert from_wire(msgspec.json.encode(to_wire(message))) == message
    assert from_logged(to_logged("acme", message, 0, "test")) == message
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=PeerMessage)
    assert (again, digest(again)) == (message, digest(message))
    assert isinstance(content, bytes) == (message.language == "binary")


@pytest.mark.spec("COMM-12")
@pytest.mark.parametrize("content", [5, None, ["a"], {"base64": "YQ=="}])
def test_what_an_adapter_hands_in_is_text_or_bytes(content: Any) -> None:
    with pytest.raises(InvalidAttribute, match="content is neither text nor bytes"):
        check_handed_in(changed(content=content))
    assert check_handed_in(changed(content=bytearray(b"\xff"))).content == b"\xff"
