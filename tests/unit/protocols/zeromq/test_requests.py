"""ZeroMQ frames: every command as documented, and every bad frame named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.errors import BadRequest, HubbubError, NotSubscribed, TopicNotFound
from hubbub.domain.messages import Message
from hubbub.domain.notices import EachTopicMessages, TopicArticles, TopicMessages
from hubbub.domain.requests import (
    Ping,
    Producer,
    ProducerOpen,
    PublishItem,
    TopicAck,
    TopicGet,
    TopicSubscribe,
    TopicUnsubscribe,
)
from hubbub.domain.topics import Article, SubscriptionOptions
from hubbub.ports.bus import PublishOutcome
from hubbub.protocols.zeromq import answers
from hubbub.protocols.zeromq.commands import COMMANDS, Shutdown
from hubbub.protocols.zeromq.requests import (
    ZeromqCredential,
    read_credential,
    read_request,
    split_envelope,
)

pytestmark = pytest.mark.spec("ONCE-04")

TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJodWIiOiJhIn0.c2lnbmF0dXJl"


def read(*frames: str | bytes) -> Any:
    """The command behind the frames; a credential is put in."""
    raw = [frame if isinstance(frame, bytes) else frame.encode() for frame in frames]
    return read_request([raw[0], b"acme", *raw[1:]]).command


def problem(*frames: str | bytes) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        read(*frames)
    return caught.value


def options(**given: Any) -> str:
    return json.dumps(given)


def test_commands_are_read_as_documented() -> None:
    assert read("put", "t", "hello") == PublishItem("t", "", b"hello", "text/plain", store=True)
    assert read("get", "t") == TopicGet("t")
    assert read("get", "") == read("get") == TopicGet(None)
    assert read("ack", "t", "7") == TopicAck("t", serials=(7,))
    assert read("ack", "t", "7,9") == TopicAck("t", serials=(7, 9))
    assert read("subscribe", "t") == TopicSubscribe("t")
    assert read("unsubscribe", "t") == TopicUnsubscribe("t")
    assert read("open", "t", "till-4") == ProducerOpen("t", "till-4")
    assert read("shutdown") == Shutdown()
    assert read("ping") == read_request([b"ping"]).command == Ping()


def test_options_are_read_as_documented() -> None:
    put = read("put", "t", b"{}", options(
        producer="p", sequence=3, fence="2", event="sold", contentType="application/json"
    ))  # fmt: skip
    assert put.producer == Producer("p", 3, 2)
    assert (put.event, put.content_type) == ("sold", "application/json")
    assert read("get", "t", options(subscription="s", limit=9, wait=1.5, consumer="c",
                                    ackUpTo="4")) == TopicGet("t", "s", 9, 1.5, "c", 4)  # fmt: skip
    assert read("get", "", options(subscription="s")) == TopicGet(None, "s")
    assert read("ack", "t", "7", options(upTo=True)) == TopicAck("t", up_to=7)
    assert read("ack", "t", "7", options(giveBack=True, consumer="c", subscription="s")) == (
        TopicAck("t", "s", (7,), None, "c", True)
    )
    shared = SubscriptionOptions(shared=True, lease_seconds=5, max_deliveries=3, dead_letters="d")
    assert read("subscribe", "t", options(
        subscription="s", start="first", shared=True, leaseSeconds=5, maxDeliveries=3,
        deadLetters="d",
    )) == TopicSubscribe("t", "s", shared, "first")  # fmt: skip
    assert read("subscribe", "t", options(start=12)) == TopicSubscribe("t", start=12)
    assert read("unsubscribe", "t", options(subscription="s")) == TopicUnsubscribe("t", "s")


def test_a_payload_may_be_any_bytes() -> None:
    assert read("put", "t", b"\x00\xff").content_type == "application/octet-stream"
    assert read("put", "t", b"").payload == b""
    assert problem("put", "t", b"\xff", options(contentType="application/json")).code == (
        "invalid_payload"
    )


def test_a_credential_is_a_token_or_the_name_of_a_hub() -> None:
    assert read_credential(TOKEN.encode()) == ZeromqCredential(token=TOKEN)
    assert read_credential(f"my shop {TOKEN}".encode()) == ZeromqCredential("my shop", TOKEN)
    assert read_credential("Büro".encode()) == ZeromqCredential("Büro")
    assert read_credential(b"") == ZeromqCredential()


def test_a_token_is_not_shown() -> None:
    assert TOKEN not in repr(read_credential(TOKEN.encode()))


@pytest.mark.parametrize(
    ("frames", "said"),
    [
        (("fetch", "t"), "there is no command 'fetch'; there are put, get, ack"),
        (("GET", "t"), "there is no command 'GET'"),
        ((b"\xff\xfe",), "the command is not UTF-8"),
        (("put", "t"), "put has 2 frames after the command; expected credential, topic, payload"),
        (("put", "t", "a", "", "more"), "put has 5 frames"),
        (("ack", "t"), "expected credential, topic, serial, [options]"),
        (("shutdown", "now"), "expected credential"),
        (("get", b"\xff"), "the topic is not UTF-8"),
        (("get", "a*b"), "'*'"),
        (("get", "t\n"), "control characters"),
        (("put", "", "x"), "the topic name is empty"),
        (("put", "t" * 256, "x"), "256 characters"),
        (("open", "t", "a#"), "the producer name"),
        (("get", "t", "[]"), "the options are not a JSON object"),
        (("get", "t", "{"), "the options are not a JSON object"),
        (("get", "t", b"\xff"), "the frame of options is not UTF-8"),
        (("get", "t", "[" * 10_000), "the options"),
        (("get", "t", "x" * 20_000), "20000 bytes"),
        (("get", "t", '{"limits": 3}'), "get has no option 'limits'"),
        (("subscribe", "t", '{"wait": 3}'), "subscribe has no option 'wait'"),
        (("get", "t", '{"limit": 0}'), "$.limit"),
        (("get", "t", '{"limit": 1001}'), "$.limit"),
        (("get", "t", '{"limit": "many"}'), "$.limit"),
        (("get", "t", '{"limit": true}'), "$.limit"),
        (("get", "t", '{"wait": -1}'), "wait"),
        (("get", "t", '{"wait": 61}'), "$.wait"),
        (("get", "t", '{"wait": NaN}'), "not a JSON object"),
        (("get", "t", '{"subscription": ""}'), "the subscription name is empty"),
        (("get", "t", '{"consumer": "*"}'), "the consumer name"),
        (("get", "t", '{"ackUpTo": -1}'), "`ackUpTo` is -1"),
        (("get", "", '{"wait": 1}'), "without a topic there is one option"),
        (("ack", "t", "-1"), "the serial is '-1'"),
        (("ack", "t", "0"), "the serial is 0"),
        (("ack", "t", ""), "the serial is ''"),
        (("ack", "t", "1" * 40), "the serial is '1111"),
        (("ack", "t", "1,,2"), "the serial is ''"),
        (("ack", "t", "١"), "the serial is '١'"),
        (("ack", "t", "1,2", '{"upTo": true}'), "`upTo` takes one serial"),
        (("ack", "t", ",".join(["1"] * 1001)), "more than 1000 serials"),
        (("put", "t", "x", '{"producer": "p"}'), "`producer` needs `sequence`"),
        (("put", "t", "x", '{"sequence": 1}'), "need `producer`"),
        (("put", "t", "x", '{"producer": "p", "sequence": 0}'), "`sequence` is 0"),
        (("put", "t", "x", '{"producer": "p", "sequence": 1e3}'), "$.sequence"),
        (("put", "t", "x", '{"producer": "p", "sequence": 99999999999999999999}'), "sequence"),
        (("put", "t", "x", '{"event": "a\\u0000"}'), "the event name"),
        (("subscribe", "t", '{"start": "last"}'), "expected 'new', 'first' or a serial"),
        (("subscribe", "t", '{"start": -3}'), "`start`"),
        (("subscribe", "t", '{"maxUnacknowledged": 99999999999999999999}'), "maxUnacknowledged"),
    ],
)
def test_what_is_wrong_is_named(frames: tuple[str | bytes, ...], said: str) -> None:
    assert said in problem(*frames).message


@pytest.mark.parametrize("body", [[], [b""], [b"put"], [b"get"], [b"put", b"\xff" * 9]])
def test_too_little_is_refused(body: list[bytes]) -> None:
    with pytest.raises(BadRequest):
        read_request(body)


def test_an_envelope_ends_with_the_first_empty_frame() -> None:
    assert split_envelope([b"", b"get", b"a", b""]) == ([b""], [b"get", b"a", b""])
    assert split_envelope([b"7", b"hop", b"", b"ping"]) == ([b"7", b"hop", b""], [b"ping"])
    for frames in ([], [b"ping", b"acme"], [b"x"] * 9 + [b""], [b"x" * 256, b"", b"ping"]):
        with pytest.raises(BadRequest, match="no empty frame"):
            split_envelope(frames)


frame = st.one_of(
    st.sampled_from([b"", b"acme", b"t", b"1", b"{}", b'{"limit": 2}', TOKEN.encode()]),
    st.sampled_from([name.encode() for name in COMMANDS]),
    st.binary(max_size=40),
    st.text(max_size=20).map(lambda text: text.encode("utf-8", "surrogatepass")),
)
json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
known_options = st.dictionaries(
    st.sampled_from(
        ["producer", "sequence", "fence", "limit", "wait", "start", "upTo", "shared", "event",
         "subscription", "leaseSeconds", "maxDeliveries", "deadLetters", "ackUpTo", "x"]
    ),
    json_value,
    max_size=4,
)  # fmt: skip


@given(st.lists(frame, max_size=7))
def test_any_frames_are_read_or_refused(frames: list[bytes]) -> None:
    try:
        envelope, body = split_envelope(frames)
        assert [*envelope, *body] == frames
        read_request(body)
    except HubbubError as error:
        answers.refused(error)


@given(st.sampled_from(list(COMMANDS)), known_options)
def test_any_options_are_read_or_refused(command: str, given_options: dict[str, Any]) -> None:
    parts = {"put": ["t", "x"], "ack": ["t", "1"], "open": ["t", "p"]}.get(command, ["t"])
    try:
        read(command, *parts, json.dumps(given_options))
    except HubbubError as error:
        answers.refused(error)


def test_answers_are_written_as_documented() -> None:
    message = Message("m1", "acme", "t", "sold", b"\x00", "a/b", 5, serial=7, publisher="ann")
    article = Article(message, deliveries=2, redelivered=True)
    each = {"t": TopicArticles((article,)), "u": TopicArticles(())}
    *head, about = answers.frames_of(TopicMessages("t", messages=(article,)))
    assert head == [b"TopicArticle", b"t", b"7", b"\x00"]
    assert json.loads(about) == {
        "msgID": "m1",
        "ts": 5,
        "event": "sold",
        "contentType": "a/b",
        "publisher": "ann",
        "deliveries": 2,
        "redelivered": True,
    }
    assert (
        answers.frames_of(TopicMessages("t", messages=(article,) * 3))[5:] == [*head[1:], about] * 2
    )
    assert answers.frames_of(TopicMessages("t")) == [b"EmptyTopic", b"t"]
    assert answers.frames_of(EachTopicMessages("s", each)) == [
        *head, about, b"EmptyTopic", b"u", b"", b"", b"",
    ]  # fmt: skip
    assert answers.frames_of(EachTopicMessages("s", {}))[:2] == [b"NotSubscribed", b""]
    assert answers.refused(NotSubscribed("why"), "t") == [b"NotSubscribed", b"t", b"why"]
    assert answers.refused(TopicNotFound("why"), "t") == [b"NonExistentTopic", b"t", b"why"]
    assert answers.refused(BadRequest("why \ud800"), "t")[:2] == [b"ERROR", b"bad_request"]


def test_a_repeated_put_names_the_original_while_it_is_there() -> None:
    def reply(outcome: PublishOutcome) -> tuple[bytes, dict[str, Any]]:
        name, topic, serial, about = answers.put_reply("t", "m2", outcome)
        assert (name, topic) == (b"PutReply", b"t")
        return serial, json.loads(about)

    assert reply(PublishOutcome(7)) == (b"7", {"msgID": "m2", "duplicate": False})
    assert reply(PublishOutcome(7, duplicate=True, message_id="m1")) == (
        b"7",
        {"msgID": "m1", "duplicate": True},
    )
    assert reply(PublishOutcome(0, duplicate=True)) == (b"", {"duplicate": True})
