"""The objects of Hubiquitus: every attribute with a wrong type, missing and empty."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hubbub.domain.commands.dates import read_date, write_date
from hubbub.domain.commands.jids import Jid
from hubbub.domain.commands.mapping import from_message, to_item
from hubbub.domain.commands.objects import (
    HChannel,
    HMessage,
    HResult,
    complete,
    read_channel,
    read_command,
    read_message,
    refusal,
    write_channel,
    write_command,
    write_message,
    write_result,
)
from hubbub.domain.commands.status import CommandRefused, Status
from hubbub.domain.messages import BINARY, JSON, TEXT, Attributes, Message

pytestmark = pytest.mark.spec("CMD-01")

ANN = Jid("ann", "demo")
COMMAND = {"reqid": "1", "sender": "ann@demo", "entity": "hnode@demo", "cmd": "hEcho"}
CHANNEL = {"chid": "#news@demo", "owner": "ann@demo", "participants": ["bob@x"], "active": True}
MESSAGE = {"chid": "#news@demo", "publisher": "ann@demo/tab"}
ABSENT = object()


def changed(base: dict[str, Any], name: str, value: object) -> dict[str, Any]:
    rest = {key: each for key, each in base.items() if key != name}
    return rest if value is ABSENT else {**rest, name: value}


def nested(levels: int) -> Any:
    return [nested(levels - 1)] if levels else 1


def refused(read: Any, *given: object) -> CommandRefused:
    with pytest.raises(CommandRefused) as caught:
        read(*given)
    return caught.value


# -- hCommand -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("reqid", ABSENT, 6),
        ("reqid", None, 6),
        ("reqid", "", 7),
        ("reqid", 1, 7),
        ("reqid", True, 7),
        ("sender", ABSENT, 6),
        ("sender", None, 6),
        ("sender", "", 7),
        ("sender", "ann", 7),
        ("sender", 5, 7),
        ("entity", ABSENT, 6),
        ("entity", None, 6),
        ("entity", "", 7),
        ("entity", "hnode", 7),
        ("entity", {}, 7),
        ("cmd", ABSENT, 6),
        ("cmd", None, 6),
        ("cmd", "", 7),
        ("cmd", ["hEcho"], 7),
        ("sent", "yesterday", 7),
        ("sent", True, 7),
        ("sent", [], 7),
        ("transient", "false", 7),
        ("transient", 0, 7),
        ("requester", "ann", 7),
        ("requester", 1, 7),
        ("timeout", "5", 7),
        ("timeout", 0, 7),
        ("timeout", True, 7),
    ],
)
def test_a_wrong_attribute_of_a_command_is_refused(name: str, value: object, status: int) -> None:
    given = changed(COMMAND, name, value)
    found = refused(read_command, given)
    assert (found.status, name in found.text) == (status, True)
    repeated = write_result(refusal(given, found))
    assert (repeated["reqid"], repeated["cmd"]) == (given.get("reqid"), given.get("cmd"))


@pytest.mark.parametrize("given", [None, [], "hEcho", 7])
def test_a_command_that_is_no_object_is_refused(given: object) -> None:
    assert refused(read_command, given).status is Status.INVALID
    assert refusal(given, refused(read_command, given)).reqid is None


def test_attributes_are_checked_in_the_order_of_the_table() -> None:
    given = {"reqid": 1, "sender": 1, "entity": 1, "cmd": 1, "sent": "x", "transient": 1}
    for name, right in (*COMMAND.items(), ("sent", 0), ("transient", True)):
        assert refused(read_command, given).text.startswith(name)
        given[name] = right
    assert read_command(given).sent == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("reqid", "é"),
        ("sender", "a%40b@demo/s1"),
        ("sender", "%61nn@demo"),
        ("sender", "ann@demo/"),
        ("sender", "é@demo"),
        ("entity", "%68node@demo"),
        ("entity", "hnode@demo/"),
        ("cmd", "é"),
        ("sent", 0),
        ("sent", 1.5e12),
        ("sent", ""),
        ("transient", None),
        ("requester", "bob@demo"),
        ("timeout", 7),
        ("unknown", 1),
    ],
)
def test_a_command_means_the_same_read_at_once_and_by_its_attributes(
    name: str, value: object
) -> None:
    """A timeout is among what is never read at once."""
    given = changed(COMMAND, name, value)
    by_attributes = read_command({"timeout": 1, **given})
    at_once = msgspec.structs.replace(read_command(given), timeout_ms=by_attributes.timeout_ms)
    assert at_once == by_attributes


def test_a_whole_command_is_read_and_written() -> None:
    more = {"sent": "2012-07-06T10:00:00.000Z", "params": {"a": 1}, "transient": False}
    command = read_command({**COMMAND, **more, "requester": "", "timeout": 90_000})
    assert write_command(command) == {**COMMAND, **more, "timeout": 60_000}


def test_an_empty_result_is_absent_and_null_is_a_result() -> None:
    assert write_result(HResult("c", "1", Status.OK)) == {"cmd": "c", "reqid": "1", "status": 0}
    assert write_result(HResult("c", "1", Status.OK, None))["result"] is None


# -- hChannel -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("chid", ABSENT, 6),
        ("chid", None, 6),
        ("chid", "", 7),
        ("chid", 1, 7),
        ("chid", "#news@elsewhere", 7),
        ("chid", "news@demo", 7),
        ("chid", "hAdminChannel", 7),
        ("chdesc", 1, 7),
        ("priority", 6, 7),
        ("priority", -1, 7),
        ("priority", 1.5, 7),
        ("priority", "1", 7),
        ("priority", True, 7),
        ("priority", 10**400, 7),
        ("location", [], 7),
        ("location", "here", 7),
        ("headers", [], 7),
        ("headers", 1, 7),
        ("owner", ABSENT, 6),
        ("owner", None, 6),
        ("owner", "", 7),
        ("owner", "ann", 7),
        ("owner", "ann@demo/tab", 7),
        ("owner", 1, 7),
        ("owner", "bob@demo", 5),
        ("participants", ABSENT, 6),
        ("participants", None, 6),
        ("participants", "ann@demo", 7),
        ("participants", {}, 7),
        ("participants", ["ann"], 7),
        ("participants", [1], 7),
        ("participants", [""], 7),
        ("participants", ["ann@demo/tab"], 7),
        ("participants", [f"u{n}@demo" for n in range(1001)], 7),
        ("active", ABSENT, 6),
        ("active", None, 6),
        ("active", "", 7),
        ("active", 1, 7),
    ],
)
def test_a_wrong_attribute_of_a_channel_is_refused(name: str, value: object, status: int) -> None:
    found = refused(read_channel, changed(CHANNEL, name, value), ANN)
    assert (found.status, name in found.text) == (status, True)


def test_a_whole_channel_is_read_and_written() -> None:
    more = {
        "chdesc": "all news",
        "priority": 3,
        "location": {"lat": 1},
        "headers": {"MAX_MSG_RETRIEVAL": "20"},
        "host": "h1",
    }
    channel = read_channel({**CHANNEL, **more, "chid": "news", "strange": 1}, ANN)
    assert write_channel(channel, "demo") == {**CHANNEL, **more}


def test_empty_attributes_of_a_channel_are_absent_and_doubled_participants_are_one() -> None:
    given = {"chdesc": "", "location": {}, "headers": {}, "participants": ["a@x", "a@x"]}
    channel = read_channel({**CHANNEL, **given, "priority": None, "active": False}, ANN)
    assert channel == HChannel("news", "ann@demo", ("a@x",), active=False)


# -- hMessage -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("chid", ABSENT, 6),
        ("chid", None, 6),
        ("chid", "", 7),
        ("chid", 1, 7),
        ("chid", "a<b", 7),
        ("chid", "@demo", 7),
        ("chid", "#news@elsewhere", 9),
        ("convid", 1, 7),
        ("type", 1, 7),
        ("type", True, 7),
        ("priority", "high", 7),
        ("priority", 6, 7),
        ("priority", True, 7),
        ("relevance", "soon", 7),
        ("relevance", True, 7),
        ("transient", "no", 7),
        ("transient", 0, 7),
        ("location", "here", 7),
        ("location", [], 7),
        ("author", "ann", 7),
        ("author", 1, 7),
        ("publisher", ABSENT, 6),
        ("publisher", None, 6),
        ("publisher", "", 7),
        ("publisher", "ann", 7),
        ("publisher", "bob@demo", 5),
        ("publisher", "ann@elsewhere", 5),
        ("published", "then", 7),
        ("published", -1, 7),
        ("headers", [], 7),
        ("headers", {"RELEVANCE_OFFSET": "1"}, 7),
        ("headers", {"RELEVANCE_OFFSET": True}, 7),
        ("headers", {"MAX_MSG_RETRIEVAL": "1"}, 7),
    ],
)
def test_a_wrong_attribute_of_a_message_is_refused(name: str, value: object, status: int) -> None:
    found = refused(read_message, changed(MESSAGE, name, value), ANN)
    assert (found.status, name in found.text) == (status, True)


def test_message_attributes_are_checked_in_the_order_of_the_table() -> None:
    names = ("chid", "convid", "type", "priority", "relevance", "transient", "location", "author")
    given: dict[str, Any] = dict.fromkeys((*names, "publisher", "published", "headers"), True)
    given["transient"] = "no"
    right = {"chid": "news", "author": "x@y", "publisher": "ann@demo"}
    for name in tuple(given):
        assert refused(read_message, given, ANN).text.startswith(name)
        given[name] = right.get(name)


def test_empty_attributes_of_a_message_are_absent() -> None:
    empty = {"convid": "", "type": "", "author": "", "relevance": "", "location": {}, "headers": {}}
    assert read_message({**MESSAGE, **empty, "payload": None}, ANN) == read_message(MESSAGE, ANN)


def test_the_hub_makes_the_id_and_a_conversation_begins_with_it() -> None:
    for more, convid in (
        ({}, "new"),
        ({"msgid": "old", "convid": "old"}, "new"),
        ({"msgid": "old", "convid": "talk"}, "talk"),
    ):
        message = complete(read_message({**MESSAGE, **more}, ANN), None, "new", 5)
        assert (message.msgid, message.convid, message.published) == ("new", convid, 5)


@pytest.mark.parametrize(
    ("given", "of_channel", "priority"),
    [
        ({}, None, 1),
        ({}, 4, 4),
        ({}, 0, 0),
        ({"priority": 0}, 4, 0),
        ({"type": "hAlert"}, None, 2),
        ({"type": "hAlert", "priority": 0}, None, 2),
        ({"type": "hAlert", "priority": 5}, None, 5),
        ({"type": "hAlert"}, 3, 3),
    ],
)
def test_the_priority_has_defaults(given: Any, of_channel: int | None, priority: int) -> None:
    channel = HChannel("news", "ann@demo", (), True, priority=of_channel)
    message = read_message({**MESSAGE, **given}, ANN)
    assert complete(message, channel, "id", 0).priority == priority


@pytest.mark.parametrize(
    ("given", "relevance"),
    [
        ({}, None),
        ({"relevance": 50}, 50),
        ({"headers": {"RELEVANCE_OFFSET": 10}}, 110),
        ({"relevance": 50, "headers": {"RELEVANCE_OFFSET": 10}}, 110),
        ({"relevance": 500, "headers": {"RELEVANCE_OFFSET": 10}}, 500),
        ({"headers": {"RELEVANCE_OFFSET": 1e300}}, 253_402_300_799_999),
    ],
)
def test_the_relevance_offset_prolongs_relevance(given: Any, relevance: int | None) -> None:
    message = read_message({**MESSAGE, "published": 100, **given}, ANN)
    assert complete(message, None, "id", 0).relevance == relevance


@pytest.mark.spec("CMD-02")
def test_a_channel_enriches_its_messages() -> None:
    channel = HChannel(
        "news",
        "ann@demo",
        (),
        True,
        location={"lat": 1},
        headers={"a": 1, "b": 2, "MAX_MSG_RETRIEVAL": 3, "RELEVANCE_OFFSET": 10},
    )
    message = read_message({**MESSAGE, "published": 0, "headers": {"a": 0}}, ANN)
    done = complete(message, channel, "id", 0)
    assert done.headers == {"a": 0, "b": 2, "RELEVANCE_OFFSET": 10}
    assert (done.location, done.relevance) == ({"lat": 1}, 10)
    own = complete(read_message({**MESSAGE, "location": {"x": 1}}, ANN), channel, "id", 0)
    assert own.location == {"x": 1}


@pytest.mark.parametrize(
    ("given", "milliseconds"),
    [
        ("2012-07-06T10:00:00Z", 1_341_568_800_000),
        ("2012-07-06T12:00:00.250+02:00", 1_341_568_800_250),
        ("2012-07-06T10:00:00", 1_341_568_800_000),
        (1_341_568_800_000, 1_341_568_800_000),
        (1.5, 1),
        (True, None),
        (-1, None),
        (10**400, None),
        (float("nan"), None),
        (float("inf"), None),
        ("", None),
        ("1960-01-01", None),
        ("9999-99-99", None),
        ({}, None),
    ],
)
def test_dates_are_iso_or_milliseconds(given: object, milliseconds: int | None) -> None:
    assert read_date(given) == milliseconds


def test_dates_are_written_in_utc() -> None:
    assert write_date(1_341_568_800_250) == "2012-07-06T10:00:00.250Z"


# -- as messages ----------------------------------------------------------------------------------


def as_delivered(message: HMessage) -> HMessage:
    item = to_item(message, "news")
    return from_message(
        Message(
            message.msgid or "",
            "demo",
            item.channel,
            item.event,
            item.payload,
            item.content_type,
            7,
            serial=1 if item.store else 0,
            publisher="ann",
            attributes=item.attributes,
        )
    )


def test_a_message_comes_back_as_it_was_completed() -> None:
    given = {
        **MESSAGE,
        "convid": "talk",
        "type": "hAlert",
        "priority": 4,
        "relevance": "2030-01-01T00:00:00.000Z",
        "transient": False,
        "location": {"lat": 1.5, "zip": "x"},
        "author": "zoe@elsewhere/x",
        "published": "2012-07-06T10:00:00.000Z",
        "headers": {"a": [1, None]},
        "payload": {"text": "hi"},
        "strange": {"kept": True},
    }
    message = complete(read_message(given, ANN), None, "m1", 7)
    assert as_delivered(message) == message
    assert write_message(message) == {**given, "msgid": "m1"}


@pytest.mark.spec("CMD-07")
def test_what_is_default_is_not_kept_and_still_delivered() -> None:
    message = complete(read_message({**MESSAGE, "publisher": "ann@demo"}, ANN), None, "m1", 7)
    item = to_item(message, "news")
    assert item.attributes == Attributes(conversation_id="m1", structured={"published": 7})
    assert (item.store, item.transient) == (False, False)
    assert as_delivered(message) == message


@pytest.mark.parametrize(
    ("body", "content_type", "payload"),
    [(b'{"a":1}', JSON, {"a": 1}), (b"hi", TEXT, "hi"), (b"\xff", BINARY, "/w==")],
)
def test_messages_of_other_doors_have_defaults(
    body: bytes, content_type: str, payload: object
) -> None:
    message = Message("m1", "demo", "news", "", body, content_type, 1_341_568_800_000)
    assert write_message(from_message(message)) == {
        "msgid": "m1",
        "chid": "#news@demo",
        "convid": "m1",
        "priority": 1,
        "publisher": "hnode@demo",
        "published": "2012-07-06T10:00:00.000Z",
        "payload": payload,
    }


@pytest.mark.parametrize("payload", ["\ud800", 10**400, nested(300)])
def test_a_payload_that_no_reader_takes_is_refused(payload: object) -> None:
    message = complete(read_message({**MESSAGE, "payload": payload}, ANN), None, "m1", 7)
    found = refused(to_item, message, "news")
    assert (found.status, found.text.split()[0]) == (Status.INVALID, "payload")


def test_too_many_unknown_attributes_are_refused() -> None:
    message = read_message({**MESSAGE, "strange": "x" * 9000}, ANN)
    found = refused(to_item, complete(message, None, "m1", 7), "news")
    assert (found.status, "strange" in found.text) == (Status.INVALID, True)
