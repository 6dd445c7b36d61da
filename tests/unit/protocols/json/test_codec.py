"""The JSON subprotocol: how it looks, and what it says of bad input."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hubbub.domain import errors, notices, requests
from hubbub.domain.messages import BINARY, JSON, TEXT, Message
from hubbub.domain.requests import UndecodableRequest
from hubbub.protocols.json.codec import JSON_V1


def decode(event: str, payload: Any) -> list[requests.Request]:
    return JSON_V1.decode(json.dumps({"event": event, "payload": payload}).encode())


def rejection(event: str, payload: Any) -> UndecodableRequest:
    (rejected,) = decode(event, payload)
    assert isinstance(rejected, UndecodableRequest)
    return rejected


def publish(payload: Any, **fields: Any) -> requests.PublishItem:
    (found,) = decode("Publish", {"publishes": [{"channel": "a", "payload": payload, **fields}]})
    assert isinstance(found, requests.Publish), found
    return found.items[0]


def message(payload: bytes, content_type: str, **fields: Any) -> Message:
    return Message("m1", "demo", "news", "", payload, content_type, 5, **fields)


@pytest.mark.spec("LIVE-01")
def test_a_delivery_is_one_line_with_the_fields_of_the_specification() -> None:
    delivered = JSON_V1.encode_message(
        Message("m1", "demo", 'a"b', "created", b'{"a":1}', JSON, 5, 42, "ana")
    )

    assert delivered == (
        b'{"event":"Publish","payload":{"channel":"a\\"b","event":"created",'
        b'"payload":{"json":{"a":1}},"msgID":"m1","ts":5,"channelSerial":"42","publisher":"ana"}}'
    )


@pytest.mark.spec("LIVE-01")
@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (b"null", JSON, {"payload": {"json": None}}),
        (b"a\nb", TEXT, {"payload": {"text": "a\nb"}}),
        (b"<p>", "text/html", {"payload": {"text": "<p>"}, "contentType": "text/html"}),
        (b"\xff", BINARY, {"payload": {"base64": "/w=="}}),
        (b"\xff", "image/png", {"payload": {"base64": "/w=="}, "contentType": "image/png"}),
        (b"", BINARY, {"payload": {"base64": ""}}),
        (b"", TEXT, {"payload": {"text": ""}}),
    ],
)
def test_a_payload_is_delivered_as_its_content_type_asks(
    body: bytes, content_type: str, expected: dict[str, Any]
) -> None:
    unit = JSON_V1.encode_message(message(body, content_type))

    assert b"\n" not in unit
    assert json.loads(unit)["payload"] == {
        "channel": "news",
        "event": "",
        "msgID": "m1",
        "ts": 5,
        **expected,
    }


@pytest.mark.spec("LIVE-01")
def test_optional_fields_are_left_out_but_not_those_that_clients_look_at() -> None:
    def sent(notice: notices.Notice) -> Any:
        return json.loads(JSON_V1.encode(notice))["payload"]

    assert sent(notices.Subscribed(())) == {
        "subscribedChannels": [],
        "channels": [],
        "failures": [],
    }
    assert sent(notices.Authenticated()) == {"success": True}
    assert sent(notices.Published(())) == {"published": []}
    assert sent(notices.Presence("a", ())) == {"channel": "a", "presence": []}
    assert sent(notices.Occupancy("a", 0)) == {"channel": "a", "count": 0}
    assert sent(notices.Ping()) == {}


@pytest.mark.spec("LIVE-01")
@pytest.mark.parametrize("line", [b'{"event":"Ping"}', b'{"payload":null,"event":"Ping"}'])
def test_a_heartbeat_needs_no_payload(line: bytes) -> None:
    assert JSON_V1.decode(line) == [requests.Ping()]


@pytest.mark.spec("LIVE-01")
def test_unknown_fields_are_ignored() -> None:
    line = b'{"event":"Ping","payload":{"reqID":1,"new":[{}]},"trace":"x"}'

    assert JSON_V1.decode(line) == [requests.Ping(1)]


@pytest.mark.spec("LIVE-01")
def test_null_stands_for_a_field_that_is_left_out() -> None:
    channel = {"channel": "a", "serial": None, "epoch": None, "timestamp": None}

    assert decode("Subscribe", {"reqID": None, "channels": [channel]}) == [
        requests.Subscribe((requests.SubscribeItem("a"),))
    ]
    item = publish({"text": "x"}, event=None, extra=None, reqID=None, contentType=None)
    assert item == requests.PublishItem("a", "", b"x", TEXT)


@pytest.mark.spec("LIVE-01")
def test_serials_are_read_as_strings_and_as_numbers() -> None:
    for serial in ("42", 42):
        assert decode("History", {"channel": "a", "after": serial}) == [
            requests.History("a", after=42)
        ]


@pytest.mark.spec("LIVE-01")
def test_a_single_envelope_may_span_lines() -> None:
    sent = {"event": "Publish", "payload": {"publishes": [{"channel": "a", "payload": {}}]}}
    sent["payload"]["publishes"][0]["payload"]["json"] = {"a": [1, 2]}  # type: ignore[index]

    (found,) = JSON_V1.decode(json.dumps(sent, indent=1).replace("\n", "\r\n").encode())

    assert isinstance(found, requests.Publish)
    payload = found.items[0].payload
    assert not {b"\n", b"\r"} & {payload[at : at + 1] for at in range(len(payload))}
    assert json.loads(payload) == {"a": [1, 2]}


@pytest.mark.spec("LIVE-01")
def test_bad_lines_do_not_hurt_the_good_ones() -> None:
    frame = b'{"event":"Ping"}\n\n{"event":"Nonsense"}\r\n{"event":\n{"event":"Pong"}\n'

    first, unknown, broken, last = JSON_V1.decode(frame)

    assert (first, last) == (requests.Ping(), requests.Pong())
    assert isinstance(unknown, UndecodableRequest)
    assert isinstance(unknown.error, errors.UnknownEvent)
    assert "'Nonsense'" in unknown.error.message
    assert isinstance(broken, UndecodableRequest)
    assert isinstance(broken.error, errors.Malformed)


@pytest.mark.parametrize("frame", [b"", b"\n", b" \n\n", b"\xff", b'{"event":"Ping","x":"\xc3"}'])
def test_a_frame_without_anything_to_read_is_malformed(frame: bytes) -> None:
    (rejected,) = JSON_V1.decode(frame)

    assert isinstance(rejected, UndecodableRequest)
    assert isinstance(rejected.error, errors.Malformed)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"json": {"a": 1}}, (b'{"a": 1}', JSON)),
        ({"json": None}, (b"null", JSON)),
        ({"text": "é"}, ("é".encode(), TEXT)),
        ({"base64": "AP8="}, (b"\x00\xff", BINARY)),
    ],
)
@pytest.mark.spec("LIVE-01")
def test_a_payload_is_json_text_or_base64(payload: Any, expected: tuple[bytes, str]) -> None:
    item = publish(payload)

    assert (item.payload, item.content_type) == expected


@pytest.mark.parametrize(
    ("payload", "content_type", "expected"),
    [
        ({"text": "<svg/>"}, "image/svg+xml", (b"<svg/>", "image/svg+xml")),
        ({"text": "[1]"}, "application/json", (b"[1]", JSON)),
        ({"json": [1]}, "application/geo+json", (b"[1]", JSON)),
        ({"base64": "aGk="}, "text/css", (b"hi", "text/css")),
        ({"base64": "aGk="}, "", (b"hi", BINARY)),
    ],
)
def test_a_content_type_says_what_the_bytes_are(
    payload: Any, content_type: str, expected: tuple[bytes, str]
) -> None:
    item = publish(payload, contentType=content_type)

    assert (item.payload, item.content_type) == expected


@pytest.mark.spec("LIVE-08")
def test_items_of_the_wrong_shape_are_rejected_one_by_one() -> None:
    publishes = [
        {"channel": "a", "payload": {"json": 1}, "reqID": 1},
        {"channel": 5, "payload": {"json": 1}, "reqID": 2},
        "nonsense",
        {"channel": "a", "payload": {"base64": "?"}, "reqID": 4},
        {"channel": "a", "payload": {"text": "x"}, "reqID": "five"},
        {"channel": "a", "payload": {}, "reqID": 6},
        {"channel": "a", "payload": {"text": "last"}, "reqID": 7},
    ]

    published, *rejected = decode("Publish", {"publishes": publishes})

    assert isinstance(published, requests.Publish)
    assert [item.req_id for item in published.items] == [1, 7]
    assert all(isinstance(each, UndecodableRequest) for each in rejected)
    assert [each.req_id for each in rejected if isinstance(each, UndecodableRequest)] == [
        2,
        0,
        4,
        0,
        6,
    ]
    messages = [each.error.message for each in rejected if isinstance(each, UndecodableRequest)]
    assert messages[0] == "Publish: Expected `str`, got `int` - at `$.payload.publishes[1].channel`"
    assert "$.payload.publishes[2]`" in messages[1]
    assert "$.payload.publishes[3].payload.base64`" in messages[2]
    assert "$.payload.publishes[4].reqID`" in messages[3]
    assert "$.payload.publishes[5].payload`" in messages[4]


MISTAKES: list[tuple[str, Any, str]] = [
    ("Ping", {"reqID": "1"}, "$.payload.reqID"),
    ("Pong", [], "$.payload"),
    ("Close", 5, "$.payload"),
    ("Auth", None, "payload"),
    ("Auth", {}, "token"),
    ("Auth", {"token": ""}, "token"),
    ("Auth", {"token": "a", "credentials": {"text": "b"}}, "token"),
    ("Auth", {"token": 5}, "$.payload.token"),
    ("Auth", {"credentials": {}}, "$.payload.credentials"),
    ("Auth", {"credentials": "secret"}, "$.payload.credentials"),
    ("SessionRestore", {}, "restoreKey"),
    ("SessionRestore", {"restoreKey": ""}, "restoreKey"),
    ("SessionRestore", {"restoreKey": "k", "positions": [{"channel": "a"}]}, "serial"),
    ("Subscribe", {}, "channels"),
    ("Subscribe", {"channels": "news"}, "$.payload.channels"),
    ("Subscribe", {"channels": ["news"]}, "$.payload.channels[0]"),
    ("Subscribe", {"channels": [{"channel": 5}]}, "$.payload.channels[0].channel"),
    ("Subscribe", {"channels": [{}]}, "channel"),
    ("Subscribe", {"channels": [{"channel": "a", "serial": "-1"}]}, "channels[0].serial"),
    ("Subscribe", {"channels": [{"channel": "a", "serial": "9" * 19}]}, "channels[0].serial"),
    ("Subscribe", {"channels": [{"channel": "a", "serial": "٤"}]}, "channels[0].serial"),
    ("Subscribe", {"channels": [{"channel": "a", "timestamp": 2**63}]}, "channels[0].timestamp"),
    ("Unsubscribe", {}, "channels"),
    ("Unsubscribe", {"channels": [None]}, "$.payload.channels[0]"),
    ("Publish", {}, "publishes"),
    ("Publish", {"publishes": {}}, "$.payload.publishes"),
    ("Publish", {"publishes": [{"channel": "a"}]}, "payload"),
    ("Publish", {"publishes": [{"channel": "a", "payload": "x"}]}, "publishes[0].payload"),
    (
        "Publish",
        {"publishes": [{"channel": "a", "payload": {"json": 1}, "extra": {"store": 1}}]},
        "$.payload.publishes[0].extra.store",
    ),
    ("History", {}, "channel"),
    ("History", {"channel": "a", "after": 1.5}, "$.payload.after"),
    ("History", {"channel": "a", "limit": -1}, "limit"),
    ("History", {"channel": "a", "limit": 2**31}, "$.payload.limit"),
    ("History", {"channel": "a", "after": "1", "beforeTime": 1}, "beforeTime"),
    ("Presence", {}, "channel"),
    ("Presence", {"channel": ["a"]}, "$.payload.channel"),
]


@pytest.mark.parametrize(("event", "payload", "named"), MISTAKES)
@pytest.mark.spec("LIVE-01", "LIVE-17")
def test_a_mistake_is_answered_with_the_event_and_field(
    event: str, payload: Any, named: str
) -> None:
    rejected = rejection(event, payload)

    assert isinstance(rejected.error, errors.Malformed | errors.InvalidPayload)
    assert rejected.error.message.startswith(f"{event}: ")
    assert named in rejected.error.message


@pytest.mark.parametrize(
    ("event", "payload"),
    [
        (event, payload)
        for event, payload, _ in MISTAKES
        if isinstance(payload, dict) and event != "Publish" and "reqID" not in payload
    ],
)
@pytest.mark.spec("LIVE-01")
def test_a_mistake_is_answered_under_the_id_of_its_request(
    event: str, payload: dict[str, Any]
) -> None:
    assert rejection(event, {**payload, "reqID": 77}).req_id == 77


def test_the_names_of_unknown_events_are_cut() -> None:
    assert len(rejection("x" * 10_000, {}).error.message) < 100


def test_a_request_id_that_is_no_int64_is_not_echoed() -> None:
    assert rejection("Subscribe", {"reqID": 2**63}).req_id == 0
    assert rejection("Subscribe", {"reqID": True}).req_id == 0


def test_a_client_skips_events_of_newer_hubs() -> None:
    frame = b'{"event":"Hologram","payload":{}}\n{"event":"Pong","payload":{"reqID":1,"new":0}}'

    assert JSON_V1.decode_notices(frame) == [notices.Pong(1)]


@pytest.mark.parametrize(
    "frame",
    [
        b"nonsense",
        b'{"event":"Subscribe","payload":{}}',
        b'{"event":"Pong"}',
        b'{"event":"Ack","payload":{"published":[{"reqID":1,"success":1}]}}',
        b'{"event":"Publish","payload":' + b"[" * 10_000,
        b'{"event":"\xff"}',
    ],
)
def test_a_client_names_what_it_cannot_read(frame: bytes) -> None:
    with pytest.raises(errors.Malformed, match="the hub's frame"):
        JSON_V1.decode_notices(frame)
