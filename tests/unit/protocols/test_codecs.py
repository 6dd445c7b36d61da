"""What holds for both encodings of the socket protocol."""

from __future__ import annotations

import json
from base64 import b64encode
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from google.protobuf import json_format
from google.protobuf.message import Message as Proto
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from hubbub.domain import errors, notices, requests
from hubbub.domain.documents.text import JsonList, JsonText
from hubbub.domain.errors import HubbubError
from hubbub.domain.filters.definition import FilterDefinition
from hubbub.domain.messages import BINARY, JSON, TEXT, Attributes, Message
from hubbub.domain.notices import Notice
from hubbub.domain.payloads import MAX_JSON_DEPTH
from hubbub.domain.permissions import Grant
from hubbub.domain.requests import Request, UndecodableRequest
from hubbub.domain.threads import MAX_PAGE, Thread
from hubbub.domain.topics import (
    MAX_BATCH,
    MAX_WAIT_SECONDS,
    Article,
    SubscriptionInfo,
    SubscriptionKey,
    SubscriptionOptions,
)
from hubbub.protocols import events
from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.checks import MAX_ENVELOPES, MAX_ITEMS, error_from_wire
from hubbub.protocols.json import events as json_events
from hubbub.protocols.json import fast as json_fast
from hubbub.protocols.json.codec import JSON_V1, JsonCodec
from hubbub.protocols.json.structs import JsonStructs, json_type
from hubbub.protocols.mapping import descriptor
from hubbub.protocols.protobuf import fast as protobuf_fast
from hubbub.protocols.protobuf.codec import PROTOBUF_V1, ProtobufCodec
from hubbub.protocols.protobuf.structs import ProtobufStructs

Codec = JsonCodec | ProtobufCodec

VECTORS = json.loads((Path(__file__).parents[3] / "spec" / "vectors.json").read_text())

both = pytest.mark.parametrize(
    "codec", [JSON_V1, PROTOBUF_V1], ids=lambda codec: str(codec.subprotocol)
)
quick = settings(max_examples=40)


def plain(value: object) -> object:
    """Comparable, with errors by kind and message."""
    return msgspec.to_builtins(value, enc_hook=lambda error: [type(error).__name__, error.message])


# Strategies: everything that the domain can say.

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
name = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
event_name = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
int64 = st.integers(-(2**63), 2**63 - 1)
serial = st.integers(0, 10**18 - 1)
milliseconds = st.integers(0, 2**53)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)
documents = values.map(lambda value: JsonText(msgspec.json.encode(value)))
operations = st.lists(
    st.builds(lambda path, value: {"op": "add", "path": path, "value": value}, text, values),
    max_size=3,
).map(lambda found: JsonList(msgspec.json.encode(found)))
updates = st.builds(
    notices.DocumentUpdated, text, text, int64, int64, text, operations, st.none() | text
)
json_value = st.recursive(
    st.none() | st.booleans() | int64 | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
extra = st.dictionaries(text, json_value, max_size=3)
filters = st.builds(
    FilterDefinition,
    text,
    st.none() | text,
    st.none() | extra,
    st.none() | st.floats(allow_nan=False, allow_infinity=False),
    st.none() | st.booleans(),
    st.none() | extra,
)
content = (
    st.tuples(json_value.map(msgspec.json.encode), st.just(JSON))
    | st.tuples(text.map(str.encode), st.sampled_from([TEXT, "text/html"]))
    | st.tuples(st.binary(max_size=40), st.sampled_from([BINARY, "image/png", "a/b; c=d"]))
)
error = st.builds(
    lambda kind, message: kind(message), st.sampled_from(list(errors.catalogue().values())), text
)


header = st.dictionaries(text, json_value, max_size=3)
attributes = st.none() | st.builds(
    Attributes,
    *[st.none() | name] * 6,
    st.none() | st.integers(0, 5),
    *[st.none() | milliseconds] * 2,
    st.none() | name,
    st.none() | header,
    st.none() | header,
    st.none() | name,
).map(lambda found: None if found == Attributes() else found)


@st.composite
def publish_items(draw: st.DrawFn) -> requests.PublishItem:
    payload, content_type = draw(content)
    store, push, retain, transient = (draw(st.booleans()) for _ in range(4))
    req_id = draw(st.none() | int64)
    producer = draw(st.none() | st.builds(requests.Producer, text, serial, serial))
    return requests.PublishItem(
        draw(text),
        draw(event_name),
        payload,
        content_type,
        store,
        push,
        retain,
        transient,
        req_id,
        producer,
        attributes=draw(attributes),
        security_token=draw(st.none() | name),
    )


@st.composite
def histories(draw: st.DrawFn) -> requests.History:
    bound = draw(st.sampled_from(["", "after", "before", "after_time", "before_time"]))
    bounds: Any = {bound: draw(int64 if bound.endswith("time") else serial)} if bound else {}
    epoch, limit = draw(st.none() | text), draw(st.integers(0, 2**31 - 1))
    conversation = None if bound.endswith("time") else draw(st.none() | name)
    return requests.History(
        draw(text),
        draw(int64),
        epoch=epoch,
        limit=limit,
        conversation_id=conversation,
        filter=draw(st.none() | extra),
        **bounds,
    )


def tuples(items: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(items, max_size=3).map(tuple)


options = st.builds(
    SubscriptionOptions,
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
    int64,
    int64,
    st.none() | text,
)


def acknowledgements(
    serials: st.SearchStrategy[Any], up_to: st.SearchStrategy[Any]
) -> st.SearchStrategy[Request]:
    return st.builds(requests.TopicAck, text, name, serials, up_to, text, st.booleans(), int64)


a_threads_request = st.builds(
    requests.Threads, text, int64, st.none() | serial, st.integers(0, MAX_PAGE), st.none() | name
)
a_topic_request: st.SearchStrategy[Request] = st.one_of(
    st.builds(
        requests.TopicSubscribe,
        text,
        name,
        st.none() | options,
        st.sampled_from(["new", "first"]) | serial,
        int64,
    ),
    st.builds(requests.TopicUnsubscribe, text, name, int64),
    st.builds(
        requests.TopicGet,
        name,
        name,
        st.integers(1, MAX_BATCH),
        st.floats(0, MAX_WAIT_SECONDS),
        text,
        st.none() | serial,
        int64,
        serial,
    ),
    st.builds(lambda name, req_id: requests.TopicGet(name=name, req_id=req_id), name, int64),
    acknowledgements(st.lists(serial, min_size=1, max_size=3).map(tuple), st.none()),
    acknowledgements(st.just(()), serial),
    st.builds(requests.ProducerOpen, text, text, int64),
    st.builds(requests.TopicList, int64),
)
a_request: st.SearchStrategy[Request] = st.one_of(
    st.builds(requests.Ping, int64),
    st.builds(requests.Pong, int64),
    st.builds(requests.Close, int64),
    st.builds(requests.Authenticate, int64, name),
    st.builds(requests.Authenticate, int64, st.none(), st.binary(min_size=1, max_size=20)),
    st.builds(
        requests.Restore, name, int64, tuples(st.builds(requests.Position, text, serial, text))
    ),
    st.builds(
        requests.Subscribe,
        tuples(
            st.builds(
                requests.SubscribeItem,
                text,
                st.none() | int64,
                st.none() | serial,
                st.none() | text,
            )
        ),
        int64,
    ),
    st.builds(requests.Unsubscribe, tuples(text), int64),
    st.builds(requests.Publish, tuples(publish_items())),
    histories(),
    st.builds(requests.PresenceQuery, text, int64),
    st.builds(requests.SetFilter, filters, int64),
    st.builds(requests.UnsetFilter, text, st.none() | text, int64),
    st.builds(requests.ListFilters, st.none() | text, int64),
    st.builds(requests.DocumentGet, text, int64, text, st.none() | serial, st.none() | text),
    st.builds(
        requests.ChangeDocument,
        text,
        operations,
        st.none() | int64,
        st.none() | serial,
        st.none() | text,
        text,
        st.none() | st.builds(requests.Producer, text, serial, serial),
    ),
    a_topic_request,
    a_threads_request,
    st.builds(requests.SendCommand, extra, int64),
    st.builds(requests.AnswerCommand, extra, int64),
    st.builds(
        lambda method, body, seconds, req_id: requests.Call(
            method, body[0], body[1], seconds, req_id
        ),
        text,
        content,
        st.floats(0, 300),
        int64,
    ),
    st.builds(
        lambda stream, event, body, req_id: requests.Enqueue(
            stream, event, body[0], body[1], req_id
        ),
        text,
        event_name,
        content,
        int64,
    ),
)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    payload, content_type = draw(content)
    return Message(
        id=draw(text),
        hub="",
        channel=draw(text),
        event=draw(event_name),
        payload=payload,
        content_type=content_type,
        published_at=draw(milliseconds),
        serial=draw(serial),
        publisher=draw(st.none() | name),
        attributes=draw(attributes),
    )


grants = tuples(st.builds(Grant, text, st.booleans(), st.booleans()))
channels = tuples(st.builds(notices.SubscribedChannel, text, text, serial, st.booleans()))
failures = tuples(st.builds(notices.ChannelFailure, text, error))
members = tuples(st.builds(notices.Member, text, st.none() | name, extra, milliseconds))
page = st.fixed_dictionaries(
    {
        "channel": text,
        "messages": tuples(messages()),
        "epoch": text,
        "recovered": st.booleans(),
        "more": st.booleans(),
        "req_id": int64,
    }
)
count = st.integers(0, 2**53)
threads = tuples(
    st.builds(
        Thread, name, messages(), st.integers(1, 2**53), serial, milliseconds, st.none() | name
    )
)
subscription = st.builds(
    SubscriptionInfo,
    st.builds(lambda topic, name: SubscriptionKey("", topic, "", name), text, name),
    options,
    text,
    serial,
    serial,
    count,
    count,
    milliseconds,
    count,
    count,
    count,
    st.booleans(),
)
articles = tuples(st.builds(Article, messages(), st.integers(1, 2**53), st.booleans()))
a_topic_notice: st.SearchStrategy[Notice] = st.one_of(
    st.builds(notices.TopicSubscribed, subscription, int64),
    st.builds(notices.TopicUnsubscribed, text, text, int64),
    st.builds(notices.TopicMessages, text, text, articles, int64),
    st.builds(
        notices.EachTopicMessages,
        text,
        st.dictionaries(text, st.builds(notices.TopicArticles, articles), max_size=3),
        int64,
    ),
    st.builds(notices.TopicAcked, text, text, serial, int64),
    st.builds(notices.ProducerOpened, text, text, serial, serial, int64),
    st.builds(notices.TopicSubscriptions, tuples(subscription), int64),
)
a_notice: st.SearchStrategy[Notice] = st.one_of(
    st.builds(notices.Ping, int64),
    st.builds(notices.Pong, int64),
    st.builds(notices.Failed, error, int64),
    st.builds(notices.Disconnect, error),
    st.builds(
        notices.SessionInfo,
        text,
        text,
        st.booleans(),
        st.booleans(),
        st.booleans(),
        st.booleans(),
        st.none() | name,
        st.integers(0, 2**31 - 1),
        st.integers(0, 2**31 - 1),
    ),
    st.builds(
        notices.Authenticated,
        int64,
        st.none() | error,
        st.none() | name,
        st.none() | name,
        grants,
        tuples(text),
        extra,
        st.none() | st.integers(1, 2**53),
    ),
    st.builds(notices.RestoreKey, text),
    st.builds(
        notices.SessionRestored,
        text,
        st.none() | name,
        grants,
        tuples(text),
        extra,
        channels,
        failures,
        int64,
    ),
    st.builds(notices.Subscribed, channels, failures, int64),
    st.builds(notices.Unsubscribed, tuples(text), failures, int64),
    st.builds(
        notices.Published,
        tuples(
            st.builds(
                notices.PublishResult,
                int64,
                st.none() | text,
                serial,
                st.none() | error,
                st.booleans(),
            )
        ),
    ),
    st.builds(notices.MessageDelivery, messages(), st.booleans(), st.none() | serial),
    st.builds(lambda page, head: notices.HistoryPage(head=head, **page), page, serial),
    st.builds(lambda page, error: notices.HistoryPage(error=error, **page), page, error),
    st.builds(notices.ThreadsPage, text, threads, text, st.booleans(), int64, st.none() | error),
    st.builds(notices.ChannelReset, text, text, serial),
    st.builds(notices.CommandReceived, extra, int64),
    st.builds(notices.CommandAnswered, extra, int64),
    st.builds(notices.Presence, text, members, int64, st.none() | error),
    st.builds(notices.Joined, text, members),
    st.builds(notices.Left, text, members),
    st.builds(notices.Occupancy, text, int64),
    st.builds(notices.FilterSet, text, st.none() | text, int64),
    st.builds(notices.FilterUnset, text, st.none() | text, st.integers(0, 100), int64),
    st.builds(notices.FilterList, st.lists(filters, max_size=3).map(tuple), int64),
    updates,
    st.builds(notices.DocumentInfo, text, text, int64, int64, int64),
    st.builds(
        lambda channel, found, more, req_id, refused: (
            notices.DocumentFound(channel, "e", 1, 2, found, (), more, req_id)
            if refused is None
            else notices.DocumentFound(channel, error=refused, req_id=req_id)
        ),
        text,
        documents | st.none(),
        st.booleans(),
        int64,
        st.none() | error,
    ),
    st.builds(
        notices.DocumentChangeResult,
        text,
        text,
        st.none() | int64,
        int64,
        st.booleans(),
        st.none() | error,
        st.none() | int64,
        st.none() | text,
        int64,
    ),
    a_topic_notice,
    st.builds(lambda body, req_id: notices.CallAnswered(body[0], body[1], req_id), content, int64),
    st.builds(notices.Enqueued, text, int64),
)


@both
@pytest.mark.spec("LIVE-01")
@quick
@given(a_request)
def test_a_request_arrives_as_it_was_sent(codec: Codec, request_sent: Request) -> None:
    assert codec.decode(codec.encode_request(request_sent)) == [request_sent]


@both
@pytest.mark.spec("LIVE-01", "LIVE-17")
@settings(quick, max_examples=100)
@given(a_notice)
def test_a_notice_arrives_as_it_was_said(codec: Codec, notice: Notice) -> None:
    (arrived,) = codec.decode_notices(codec.encode(notice))

    assert type(arrived) is type(notice)
    assert plain(arrived) == plain(notice)


@both
@pytest.mark.spec("LIVE-01")
@quick
@given(messages())
def test_a_fresh_message_is_encoded_like_its_delivery(codec: Codec, message: Message) -> None:
    expected = [notices.MessageDelivery(message)]

    assert codec.decode_notices(codec.encode_message(message)) == expected
    assert codec.decode_notices(codec.encode(notices.MessageDelivery(message))) == expected


# What is written and read by hand, against the general codec.


@pytest.mark.spec("LIVE-01")
@settings(quick, max_examples=100)
@given(a_notice)
def test_what_is_written_by_hand_is_what_the_general_codec_writes(notice: Notice) -> None:
    event = events.of_notice(notice)
    general_json = msgspec.json.encode(JsonStructs(strict=False).record(notice, event.message))
    proto = GetMessageClass(event.message)
    general = ProtobufStructs(strict=False).record(notice, event.message)

    assert json.loads(JSON_V1.encode(notice))["payload"] == json.loads(general_json)
    assert parsed(PROTOBUF_V1.encode(notice), proto)[1] == proto(**general)


@pytest.mark.spec("LIVE-01")
@settings(quick, max_examples=100)
@given(messages())
def test_a_fresh_message_is_what_the_general_codec_writes(message: Message) -> None:
    delivery = notices.MessageDelivery(message)
    general_json = JsonStructs(strict=False).record(delivery, descriptor(pb.ChannelPublish))
    general = ProtobufStructs(strict=False).record(delivery, descriptor(pb.ChannelPublish))

    written = json.loads(JSON_V1.encode_message(message))["payload"]
    assert written == json.loads(msgspec.json.encode(general_json))
    assert parsed(PROTOBUF_V1.encode_message(message), pb.ChannelPublish)[1] == pb.ChannelPublish(
        **general
    )


@pytest.mark.spec("LIVE-01")
@settings(quick, max_examples=100)
@given(st.builds(notices.TopicArticles, articles))
def test_articles_are_written_by_hand_as_by_the_general_codec(found: notices.TopicArticles) -> None:
    general = JsonStructs(strict=False).record(found, descriptor(pb.TopicArticles))
    by_hand = json.loads(json_fast.articles_json(found))
    assert by_hand == json.loads(msgspec.json.encode(general))


@pytest.mark.spec("LIVE-01")
@settings(quick, max_examples=100)
@given(publish_items())
def test_an_item_is_read_by_hand_as_by_the_general_codec(item: requests.PublishItem) -> None:
    message = descriptor(pb.PubRequestInfo)
    json_structs, proto_structs = JsonStructs(strict=True), ProtobufStructs(strict=True)
    text = msgspec.json.encode({"publishes": [json_structs.record(item, message)]})
    proto = pb.PubRequestInfo(**proto_structs.record(item, message))
    rare = item.attributes is not None or item.security_token is not None

    envelope = b'{"event":"Publish","payload":%b}' % text
    assert json_fast.read_publish(envelope) == (None if rare else requests.Publish((item,)))
    assert protobuf_fast.read_item(proto) == (None if rare else item)
    assert json_events.read_items(Raw(text)) == [item]
    assert proto_structs.read(requests.PublishItem, message, proto, "") == item


@pytest.mark.spec("CMD-01")
@settings(quick, max_examples=100)
@given(extra, st.just(0) | int64)
def test_a_command_and_its_result_are_by_hand_as_in_the_general_codec(
    value: dict[str, Any], req_id: int
) -> None:
    asked, answered = requests.SendCommand(value, req_id), notices.CommandAnswered(value, req_id)
    command = JsonStructs(strict=True).record(asked, descriptor(pb.CommandMessage))
    result = JsonStructs(strict=False).record(answered, descriptor(pb.ResultMessage))
    text = msgspec.json.encode(command)

    assert json_fast.read_command(b'{"event":"HCommand","payload":%b}' % text) == asked
    assert json_events.read_request("HCommand", Raw(text)) == [asked]
    assert json_fast.result_json(answered) == msgspec.json.encode(result)


@pytest.mark.spec("LIVE-01")
@settings(quick, max_examples=100)
@given(st.builds(notices.MessageDelivery, messages(), st.booleans(), st.none() | serial))
def test_a_delivery_is_read_by_hand_as_by_the_general_codec(
    delivery: notices.MessageDelivery,
) -> None:
    message = descriptor(pb.ChannelPublish)
    json_structs, proto_structs = JsonStructs(strict=False), ProtobufStructs(strict=False)
    text = msgspec.json.encode(json_structs.record(delivery, message))
    record = msgspec.json.decode(text, type=json_type((notices.MessageDelivery,), message))
    proto = pb.ChannelPublish(**proto_structs.record(delivery, message))

    assert json_fast.read_delivery(Raw(text)) in (None, delivery)
    assert protobuf_fast.read_delivery(proto.SerializeToString()) in (None, delivery)
    assert json_structs.read(notices.MessageDelivery, message, record, "") == delivery
    assert proto_structs.read(notices.MessageDelivery, message, proto, "") == delivery


@both
@pytest.mark.spec("LIVE-01")
@quick
@given(st.lists(a_notice, max_size=5))
def test_joined_units_arrive_in_order(codec: Codec, several: list[Notice]) -> None:
    frame = codec.join([codec.encode(notice) for notice in several])

    assert plain(codec.decode_notices(frame)) == plain(several)


@both
@pytest.mark.spec("LIVE-01")
@quick
@given(st.lists(a_request, min_size=1, max_size=5))
def test_a_frame_may_hold_several_requests(codec: Codec, several: list[Request]) -> None:
    frame = codec.join([codec.encode_request(each) for each in several])

    assert codec.decode(frame) == several


@both
@pytest.mark.spec("LIVE-01")
@settings(quick, max_examples=100)
@given(st.binary(max_size=60))
def test_noise_is_rejected_and_never_raises(codec: Codec, noise: bytes) -> None:
    assert codec.decode(noise)


@both
@pytest.mark.spec("LIVE-01")
@settings(quick, max_examples=100)
@given(a_request, st.data())
def test_damaged_requests_never_raise(codec: Codec, sent: Request, data: st.DataObject) -> None:
    frame = bytearray(codec.encode_request(sent))
    at = data.draw(st.integers(0, max(0, len(frame) - 1)))
    frame[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))

    assert codec.decode(bytes(frame))


@both
@pytest.mark.spec("LIVE-01")
@settings(quick, max_examples=100)
@given(a_notice, st.data())
def test_a_damaged_notice_is_read_or_malformed(
    codec: Codec, notice: Notice, data: st.DataObject
) -> None:
    frame = bytearray(codec.encode(notice))
    at = data.draw(st.integers(0, max(0, len(frame) - 1)))
    frame[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))

    with suppress(errors.Malformed):
        codec.decode_notices(bytes(frame))


@both
@pytest.mark.spec("LIVE-16")
def test_a_frame_holds_at_most_a_thousand_envelopes(codec: Codec) -> None:
    ping = codec.encode_request(requests.Ping(1))

    assert len(codec.decode(codec.join([ping] * MAX_ENVELOPES))) == MAX_ENVELOPES
    (rejected,) = codec.decode(codec.join([ping] * (MAX_ENVELOPES + 1)))
    assert isinstance(rejected, UndecodableRequest)
    assert isinstance(rejected.error, errors.TooLarge)
    assert str(MAX_ENVELOPES) in rejected.error.message


@both
@pytest.mark.spec("LIVE-16")
@pytest.mark.parametrize(
    "sized",
    [
        lambda size: requests.Subscribe((requests.SubscribeItem("a"),) * size, 7),
        lambda size: requests.Unsubscribe(("a",) * size, 7),
        lambda size: requests.Restore("key", 7, (requests.Position("a", 1),) * size),
        lambda size: requests.Publish((requests.PublishItem("a", "", b"1", JSON),) * size),
        lambda size: requests.TopicAck("a", serials=(1,) * size),
    ],
    ids=["Subscribe", "Unsubscribe", "SessionRestore", "Publish", "TopicAck"],
)
def test_a_batch_holds_at_most_a_thousand_items(codec: Codec, sized: Any) -> None:
    assert codec.decode(codec.encode_request(sized(MAX_ITEMS))) == [sized(MAX_ITEMS)]
    (rejected,) = codec.decode(codec.encode_request(sized(MAX_ITEMS + 1)))
    assert isinstance(rejected, UndecodableRequest)
    assert isinstance(rejected.error, errors.TooLarge)


@both
@pytest.mark.spec("LIVE-08")
def test_a_bad_item_does_not_hurt_the_others_of_its_batch(codec: Codec) -> None:
    good = requests.PublishItem("a", "", b"1", JSON, req_id=1)
    bad = requests.PublishItem("a", "line\nbreak", b"1", JSON, req_id=2)
    late = requests.PublishItem("a", "", b"3", JSON, req_id=3)

    published, rejected = codec.decode(codec.encode_request(requests.Publish((good, bad, late))))

    assert published == requests.Publish((good, late))
    assert isinstance(rejected, UndecodableRequest)
    assert isinstance(rejected.error, errors.InvalidName)
    assert rejected.req_id == 2


@both
@pytest.mark.parametrize("event", ["x" * 256, "tab\there", "del\x7f", "c1\x85"])
def test_event_names_are_short_and_printable(codec: Codec, event: str) -> None:
    item = requests.PublishItem("a", event, b"1", JSON, req_id=2)

    (rejected,) = codec.decode(codec.encode_request(requests.Publish((item,))))

    assert isinstance(rejected, UndecodableRequest)
    assert isinstance(rejected.error, errors.InvalidName)


@both
def test_an_event_name_may_be_long_and_in_any_script(codec: Codec) -> None:
    publish = requests.Publish((requests.PublishItem("a", "é\u00a0ж" * 85, b"1", JSON),))

    assert codec.decode(codec.encode_request(publish)) == [publish]


@both
def test_json_that_is_accepted_can_be_read_in_every_envelope(codec: Codec) -> None:
    deep = b"[" * MAX_JSON_DEPTH + b"]" * MAX_JSON_DEPTH
    publish = requests.Publish((requests.PublishItem("a", "", deep, JSON),))
    history = notices.HistoryPage("a", (Message("1", "", "a", "", deep, JSON, 1),))

    assert codec.decode(codec.encode_request(publish)) == [publish]
    assert codec.decode_notices(codec.encode(history)) == [history]


@both
@pytest.mark.parametrize("depth", [MAX_JSON_DEPTH + 1, 800, 100_000])
def test_json_that_is_nested_too_deeply_is_rejected(codec: Codec, depth: int) -> None:
    deep = b'{"a":[' * (depth // 2) + b"[" * (depth % 2) + b"1"
    deep += b"]" * (depth % 2) + b"]}" * (depth // 2)
    publish = requests.Publish((requests.PublishItem("a", "", deep, JSON, req_id=1),))

    (rejected,) = codec.decode(codec.encode_request(publish))

    assert isinstance(rejected, UndecodableRequest)
    assert isinstance(rejected.error, errors.InvalidPayload | errors.Malformed)
    assert "nested" in rejected.error.message


@both
def test_a_client_does_not_send_rejections(codec: Codec) -> None:
    with pytest.raises(TypeError, match="UndecodableRequest"):
        codec.encode_request(UndecodableRequest(errors.Malformed("x")))


@pytest.mark.spec("LIVE-17")
def test_every_error_survives_the_wire() -> None:
    for code, kind in errors.catalogue().items():
        rebuilt = error_from_wire(code, "why")
        assert type(rebuilt) is kind
        assert rebuilt.message == "why"


@pytest.mark.spec("LIVE-17")
def test_an_error_of_a_newer_hub_keeps_its_code_as_a_note() -> None:
    rebuilt = error_from_wire("brand_new", "why")

    assert type(rebuilt) is HubbubError
    assert "'brand_new'" in rebuilt.__notes__[0]


# The schema and the vectors, against Google's own reading of the .proto.


ATTRIBUTES = {field.json_name for field in pb.Attributes.DESCRIPTOR.fields}


AS_BYTES = ("headers", "location", "template", "condition", "filter", "command", "result")
"""JSON objects that are bytes in protobuf."""


def google_json(value: Any) -> Any:
    """Our JSON as the standard mapping of protobuf has it: bytes in base64."""
    if isinstance(value, list):
        return [google_json(each) for each in value]
    if not isinstance(value, dict):
        return value
    if set(value) & {"ops", "document"} and "channel" in value:
        return {key: google_document(key, each) for key, each in value.items()}
    mapped = {
        key: base64(compact(each)) if key in AS_BYTES else google_json(each)
        for key, each in value.items()
    }
    is_message = "payload" in mapped and "id" not in mapped  # a notification has one
    given = mapped.keys() & ATTRIBUTES if is_message else ()
    if given:
        mapped["attributes"] = {key: mapped.pop(key) for key in given}
    if isinstance(value.get("extra"), dict) and not value.keys() & {"publishes", "payload"}:
        mapped["extra"] = base64(compact(value["extra"]))
    for key in value.keys() & {"payload", "credentials"}:
        mapped[key], content_type = bytes_of(value[key])
        if key == "payload" and content_type != BINARY:
            mapped.setdefault("contentType", content_type)
    return mapped


def google_document(key: str, value: Any) -> Any:
    """A field of an event about a document."""
    if key == "document":
        return document_value(value)
    if key != "ops":
        return google_json(value)
    return [
        each | ({"value": document_value(each["value"])} if "value" in each else {})
        for each in value
    ]


def document_value(value: Any) -> dict[str, Any]:
    """A DocumentValue, by hand."""
    if isinstance(value, list):
        return {"kind": "LIST", "items": [document_value(each) for each in value]}
    if isinstance(value, dict) and list(value) == ["$bytes"]:
        return {"data": value["$bytes"]}
    if isinstance(value, dict):
        names = [name[1:] if list(value) == ["$$bytes"] else name for name in value]
        items = [document_value(each) for each in value.values()]
        return {"kind": "OBJECT", "keys": names, "items": items}
    if value is None:
        return {"null": True}
    kinds = {bool: "boolean", int: "integer", float: "number", str: "text"}
    return {kinds[type(value)]: value}


def bytes_of(payload: dict[str, Any]) -> tuple[str, str]:
    if "json" in payload:
        return base64(compact(payload["json"])), JSON
    if "text" in payload:
        return base64(payload["text"].encode()), TEXT
    return payload["base64"], BINARY


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def base64(body: bytes) -> str:
    return b64encode(body).decode()


def vectors(sender: str) -> pytest.MarkDecorator:
    found = [each for each in VECTORS["messages"] if each["from"] == sender]
    return pytest.mark.parametrize("vector", found, ids=[each["name"] for each in found])


def parsed(frame: bytes, kind: type[Proto]) -> tuple[int, Proto]:
    (envelope,) = pb.Frame.FromString(frame).envelopes
    return envelope.event, kind.FromString(envelope.payload)


@vectors("client")
@pytest.mark.spec("LIVE-01")
def test_the_hub_reads_both_encodings_of_a_vector_alike(vector: dict[str, Any]) -> None:
    from_json = JSON_V1.decode(compact(vector["json"]))
    from_protobuf = PROTOBUF_V1.decode(bytes.fromhex(vector["protobuf"]))

    assert from_json == from_protobuf
    assert not any(isinstance(each, UndecodableRequest) for each in from_json)


@vectors("hub")
@pytest.mark.spec("LIVE-01")
def test_the_hub_writes_the_vectors(vector: dict[str, Any]) -> None:
    (notice,) = JSON_V1.decode_notices(compact(vector["json"]))
    frame = bytes.fromhex(vector["protobuf"])
    kind = getattr(pb, vector["message"])

    assert plain(PROTOBUF_V1.decode_notices(frame)) == plain([notice])
    assert json.loads(JSON_V1.encode(notice)) == vector["json"]
    assert parsed(PROTOBUF_V1.encode(notice), kind) == parsed(frame, kind)


@pytest.mark.parametrize("vector", VECTORS["messages"], ids=lambda vector: str(vector["name"]))
@pytest.mark.spec("LIVE-01")
def test_both_encodings_of_a_vector_are_one_message(vector: dict[str, Any]) -> None:
    event, proto = parsed(bytes.fromhex(vector["protobuf"]), getattr(pb, vector["message"]))
    payload = google_json(vector["json"].get("payload", {}))

    assert pb.EventType.Name(event) == vector["json"]["event"]
    assert json_format.ParseDict(payload, type(proto)()) == proto


@pytest.mark.spec("LIVE-01")
def test_every_event_has_a_vector() -> None:
    assert {vector["json"]["event"] for vector in VECTORS["messages"]} == set(
        pb.EventType.keys()
    ) - {"UNSPECIFIED"}


@pytest.mark.parametrize("vector", VECTORS["rejected"], ids=lambda vector: str(vector["name"]))
@pytest.mark.spec("LIVE-01", "LIVE-17")
def test_the_hub_rejects_the_vectors_of_mistakes(vector: dict[str, Any]) -> None:
    codec: Codec = JSON_V1 if "text" in vector else PROTOBUF_V1
    frame = vector["text"].encode() if "text" in vector else bytes.fromhex(vector["protobuf"])

    found = [each for each in codec.decode(frame) if isinstance(each, UndecodableRequest)]

    assert [[each.error.code, each.req_id] for each in found] == vector["errors"]
