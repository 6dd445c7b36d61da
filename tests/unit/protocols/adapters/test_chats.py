"""Chats as messages and messages in chats: Matrix, Telegram, Slack."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slack_sdk.signature import SignatureVerifier

from harness.adapters import message
from hubbub.protocols.adapters import matrix, slack, telegram

pytestmark = [pytest.mark.spec("COMM-03")]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=10,
)


def odd(names: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with these fields, which may hold anything."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(names, JSON))


# -- Matrix ---------------------------------------------------------------------------------------


def sync(*events: dict[str, Any], room: str = "!r:x") -> bytes:
    joined = {room: {"timeline": {"events": list(events)}}}
    return json.dumps({"next_batch": "s2", "rooms": {"join": joined}}).encode()


def event(body: Any = "hello", **content: Any) -> dict[str, Any]:
    return {
        "type": "m.room.message",
        "event_id": "$e1",
        "sender": "@ann:x",
        "content": {"msgtype": "m.text", "body": body, **content},
    }


def test_an_event_says_which_message_it_is() -> None:
    content = json.loads(matrix.event_content(message(headers={"subject": "Build"})))
    assert content["body"] == "Build\n\nit is red"
    assert content[matrix.HUBBUB]["id"] == "m-1"
    answer = json.loads(matrix.event_content(message(refers_to="matrix:$e7")))
    assert answer["m.relates_to"] == {"m.in_reply_to": {"event_id": "$e7"}}


def test_an_answer_in_a_room_refers_to_the_message_that_it_answers() -> None:
    answer = event("> <@hub:x> it is red\n\nI look", **{
        "m.relates_to": {"m.in_reply_to": {"event_id": "$e0"}}
    })  # fmt: skip
    synced = matrix.read_sync(sync(answer), "@hub:x").messages[0]
    answered = json.loads(matrix.event_content(message(conversation_id="b7")))
    found = matrix.chat_message(synced, answered, "CHAT", "")
    assert (found.refers_to, found.conversation_id) == ("m-1", "b7")
    assert found.content == "I look"
    assert found.headers == {"from": "@ann:x", "room": "!r:x", "peer": "ann"}
    assert found.id == "matrix:$e1"
    assert matrix.chat_message(synced, {}, "CHAT", "").refers_to == "matrix:$e0"


def test_what_the_hub_wrote_and_what_is_no_text_is_left_out() -> None:
    own = {**event(), "sender": "@hub:x"}
    edit = event(**{"m.relates_to": {"rel_type": "m.replace", "event_id": "$e0"}})
    notice = event(msgtype="m.notice")
    foreign = event(**{matrix.HUBBUB: {"id": "m-9"}})
    assert matrix.read_sync(sync(own, edit, notice, foreign), "@hub:x").messages == ()


def test_rooms_and_events_are_quoted_in_paths() -> None:
    path = matrix.send_path("!a/b:x", "k 1")
    assert path.endswith("/rooms/%21a%2Fb%3Ax/send/m.room.message/k%201")


@given(odd(["type", "event_id", "sender", "content"]), odd(["msgtype", "body", "m.relates_to"]))
def test_no_event_breaks_the_reader(some: dict[str, Any], content: dict[str, Any]) -> None:
    matrix.read_sync(sync(some, {**event(), "content": content}), "@hub:x")


# -- Telegram -------------------------------------------------------------------------------------


def update(text: Any = "hello", **fields: Any) -> dict[str, Any]:
    said = {"message_id": 5, "chat": {"id": 42}, "from": {"id": 42, "language_code": "de"}}
    return {"ok": True, "result": [{"update_id": 9, "message": {**said, "text": text, **fields}}]}


def test_an_answer_in_a_chat_refers_to_the_message_whose_text_it_quotes() -> None:
    sent = json.loads(telegram.send_body(message(), "42"))
    assert sent == {"chat_id": "42", "text": "it is red\n\n[#m-1]"}
    answer = update("I look", reply_to_message={"message_id": 4, "text": sent["text"]})
    found = telegram.read_updates(answer, "CHAT", "")[0].message
    assert found is not None
    assert (found.refers_to, found.subtype, found.id) == ("m-1", "REPLY", "telegram:42:5")
    assert found.headers["from"] == "42"
    other = update("hm", reply_to_message={"message_id": 4, "text": "lunch?"})
    second = telegram.read_updates(other, "CHAT", "")[0].message
    assert second is not None
    assert second.refers_to == "telegram:42:4"
    reply = json.loads(telegram.send_body(message(refers_to="telegram:42:5"), "42"))
    assert reply["reply_parameters"]["message_id"] == 5


def test_bots_and_pictures_are_left_out_and_passed() -> None:
    bot = update(**{"from": {"is_bot": True}})
    assert telegram.read_updates(bot, "CHAT", "") == [telegram.TelegramUpdate(9, None)]
    assert telegram.read_updates(update(None), "CHAT", "") == [telegram.TelegramUpdate(9, None)]


@given(st.text(max_size=9000), st.text(min_size=1, max_size=300))
def test_texts_keep_to_the_length_that_telegram_takes(content: str, id: str) -> None:
    text = telegram.text_of(message(content=content, id=id))
    assert 0 < len(text.encode("utf-16-le", "surrogatepass")) // 2 <= telegram.MAX_CHARS


@given(odd(["message_id", "chat", "from", "text", "reply_to_message"]), JSON)
def test_no_update_breaks_the_reader(said: dict[str, Any], other: Any) -> None:
    updates = [{"update_id": 1, "message": said}, other]
    telegram.read_updates({"ok": True, "result": updates}, "C", "")
    telegram.read_error({"description": other, "parameters": other})


# -- Slack ----------------------------------------------------------------------------------------


def slack_event(**fields: Any) -> bytes:
    said = {"type": "message", "channel": "C1", "user": "U1", "text": "hi", "ts": "17.5", **fields}
    return json.dumps({"type": "event_callback", "event": said}).encode()


def test_a_text_calls_nobody_by_what_it_says() -> None:
    text = json.loads(slack.webhook_body(message(content="<!channel> a & b")))["text"]
    assert text == "&lt;!channel&gt; a &amp; b"


def test_threads_are_conversations() -> None:
    found = slack.read_event(slack_event(ts="18.0", thread_ts="17.5"), "CHAT", "").message
    assert found is not None
    assert (found.refers_to, found.conversation_id) == ("slack:C1:17.5", "slack:C1:17.5")
    assert found.headers["from"] == "U1"
    assert slack.read_event(slack_event(bot_id="B1"), "CHAT", "").message is None


def test_the_sender_that_tries_the_url_is_answered() -> None:
    body = b'{"type":"url_verification","challenge":"abc"}'
    assert slack.read_event(body, "CHAT", "").challenge == "abc"


@given(st.binary(max_size=200), st.text("abc123", min_size=1, max_size=30))
def test_signatures_are_judged_like_an_independent_library_does(body: bytes, secret: str) -> None:
    now = 1_700_000_000
    signed = b"v0:%d:" % now + body
    signature = "v0=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    headers = {"x-slack-request-timestamp": str(now), "x-slack-signature": signature}
    slack.check_signature(secret, headers, body, now)
    try:
        theirs = SignatureVerifier(secret).generate_signature(timestamp=str(now), body=body)
    except UnicodeDecodeError:
        theirs = signature  # their library takes text only
    assert theirs == signature


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-slack-request-timestamp": "1700000000"},
        {"x-slack-request-timestamp": "1700000000", "x-slack-signature": "v0=00"},
        {"x-slack-request-timestamp": "1600000000", "x-slack-signature": "v0=00"},
        {"x-slack-request-timestamp": "abc", "x-slack-signature": "ü"},
    ],
)
def test_what_is_not_signed_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(slack.BadSignature):
        slack.check_signature("secret", headers, b"{}", 1_700_000_000)


@given(JSON, odd(["type", "channel", "user", "text", "ts", "thread_ts"]))
def test_no_event_of_slack_breaks_the_reader(other: Any, event: dict[str, Any]) -> None:
    for body in (other, {"type": "event_callback", "event": event}):
        with contextlib.suppress(ValueError):
            slack.read_event(json.dumps(body).encode(), "CHAT", "")
