"""What a push says on each platform, within the size that its service takes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.errors import InvalidAttribute
from hubbub.domain.messages import BINARY, JSON, TEXT, Message
from hubbub.domain.push.content import APNS_BYTES, FCM_BYTES, WEB_PUSH_BYTES, note_of, render
from hubbub.domain.push.options import PushOptions, read_options
from hubbub.domain.push.tokens import PLATFORMS

pytestmark = pytest.mark.spec("PUSH-01")

LIMITS = {"webpush": WEB_PUSH_BYTES, "fcm": FCM_BYTES, "apns": APNS_BYTES}
ABOUT = {"hub": "acme", "channel": "news", "event": "said", "msgID": "m1", "serial": 7}


def message(payload: bytes = b'{"a":1}', content_type: str = JSON) -> Message:
    return Message("m1", "acme", "news", "said", payload, content_type, 1_000, 7, "ann")


@pytest.mark.parametrize(("after_ms", "left"), [(0, 1), (1, 1), (999, 1), (1_000, 0), (9_000, 0)])
def test_a_push_for_one_second_never_becomes_one_for_now_or_never(after_ms: int, left: int) -> None:
    note = note_of(message(), PushOptions(title="t", ttl=1))
    assert note.seconds_left(note.published_at + after_ms) == left


def rendered(platform: Any, options: PushOptions, of: Message | None = None) -> Any:
    body = render(platform, note_of(of or message(), options))
    assert len(body) <= LIMITS[platform]
    return json.loads(body)


def test_what_a_message_is_goes_along_and_its_payload_only_on_request() -> None:
    shown = PushOptions(title="Hello", body="World", url="/x", data={"n": 1})
    more = {"title": "Hello", "body": "World", "url": "/x", "data": {"n": 1}}
    assert rendered("webpush", shown) == ABOUT | more
    assert rendered("fcm", shown) == {
        "notification": {"title": "Hello", "body": "World"},
        "data": ABOUT | {"serial": "7", "url": "/x", "data": '{"n":1}'},
    }
    alert = {"aps": {"alert": {"title": "Hello", "body": "World"}, "sound": "default"}}
    assert rendered("apns", shown) == alert | ABOUT | {"url": "/x", "data": {"n": 1}}
    with_payload = PushOptions(include_payload=True)
    assert rendered("webpush", with_payload)["payload"] == {"json": {"a": 1}}
    assert json.loads(rendered("fcm", with_payload)["data"]["payload"]) == {"json": {"a": 1}}
    assert rendered("apns", with_payload, message(b"hi", TEXT))["payload"] == {"text": "hi"}
    assert rendered("apns", with_payload, message(b"\xff", BINARY))["payload"] == {"base64": "/w=="}


def test_without_title_and_body_a_push_is_silent() -> None:
    assert rendered("apns", PushOptions())["aps"] == {"content-available": 1}
    assert "notification" not in rendered("fcm", PushOptions())


@pytest.mark.parametrize("platform", PLATFORMS)
def test_over_the_limit_the_payload_goes_first_and_then_the_end_of_the_body(platform: Any) -> None:
    large = message(b'"%b"' % (b"x" * 3500))
    fits = rendered(platform, PushOptions(title="t", body="b" * 2000, include_payload=True), large)
    assert "payload" not in json.dumps(fits)
    assert "b" * 2000 in json.dumps(fits)
    body = "ü" * 5000
    cut = json.dumps(rendered(platform, PushOptions(title="t", body=body)), ensure_ascii=False)
    assert "ü" * 1500 + "ü" in cut
    assert "ü…" in cut


@given(
    platform=st.sampled_from(PLATFORMS),
    title=st.none() | st.text(max_size=3000),
    body=st.none() | st.text(max_size=6000),
    url=st.none() | st.text(max_size=5000),
    data=st.none() | st.dictionaries(st.text(max_size=50), st.text(max_size=3000), max_size=3),
    payload=st.binary(max_size=5000),
)
def test_whatever_is_given_fits(
    platform: Any, title: Any, body: Any, url: Any, data: Any, payload: bytes
) -> None:
    options = PushOptions(title, body, None, url, data, include_payload=True)
    said = rendered(platform, options, message(payload, BINARY))
    about = said["data"] if platform == "fcm" else said
    assert {name: about[name] for name in ("hub", "channel", "msgID")}.items() <= ABOUT.items()


def test_options_out_of_their_bounds_are_refused_by_name() -> None:
    assert read_options({"title": "t", "ttl": 0, "urgency": "high"}).ttl == 0
    for given_options, problem in (
        ({"titel": "t"}, "titel"),
        ({"ttl": -1}, "ttl"),
        ({"ttl": 10**9}, "ttl"),
        ({"urgency": "highest"}, "urgency"),
        ({"title": 5}, "title"),
        ({"data": []}, "data"),
        ({"body": "x" * 20_000}, "16384"),
        ([], "pushOptions"),
    ):
        with pytest.raises(InvalidAttribute, match=problem):
            read_options(given_options)
    deep: Any = {}
    for _ in range(30):
        deep = {"a": deep}
    with pytest.raises(InvalidAttribute, match="levels"):
        read_options({"data": deep})
