"""Runs of published messages: short on disk, and the same events when they are read."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.journals import seal
from hubbub.domain.journal import PUBLISHED, SESSION_OPENED, JournalEvent
from hubbub.domain.messages import JSON, Attributes, Message
from hubbub.journal.records import events_of
from hubbub.journal.runs import Gathered, Row, Shared, unpack
from hubbub.journal.slices import JournalSlice, read_slice

pytestmark = pytest.mark.spec("PIPE-01")


def message(serial: int, **more: object) -> Message:
    made = Message(f"m{serial}", "acme", "news", "e", b"{}", JSON, serial * 1000, serial)
    return msgspec.structs.replace(made, **more)


def test_a_message_in_a_run_is_an_event_with_all_of_its_fields() -> None:
    full = message(3, taken_at=5, session="s", publisher="ann", technology="http", store=True)
    gathered = Gathered("n1")
    gathered.published(full, "e1", "payload")
    gathered.published(message(0, id="live"), "e1", "metadata")
    assert gathered.count == 2
    first, second = events_of(gathered.body())
    assert first == JournalEvent(
        PUBLISHED,
        5,
        "acme",
        "n1",
        channel="news",
        session="s",
        user="ann",
        technology="http",
        message_id="m3",
        epoch="e1",
        serial=3,
        stored=True,
        event="e",
        content_type=JSON,
        size=2,
        payload=b"{}",
        published_at=5,
    )
    assert (second.message_id, second.serial, second.stored) == ("live", None, False)
    assert (second.session, second.user, second.payload) == (None, None, None)


def test_the_rarer_parts_of_a_message_are_kept_too() -> None:
    attributes = Attributes(
        producer_id="p", producer_seq=4, conversation_id="c", refers_to="m1", headers={"k": "v"}
    )
    gathered = Gathered("n1")
    gathered.published(message(1, attributes=attributes), "e1", "payload")
    (found,) = events_of(gathered.body())
    assert (found.producer, found.sequence, found.conversation_id) == ("p", 4, "c")
    assert (found.refers_to, found.headers, found.payload) == ("m1", {"k": "v"}, b"{}")
    assert (found.at, found.published_at, found.node) == (1_000_000, 1_000_000, "n1")


@given(st.lists(st.sampled_from(["event", "ann", "bob", "attributes", "other channel"])))
def test_events_are_read_in_the_order_in_which_they_happened(kinds: list[str]) -> None:
    numbers = count(1)
    gathered = Gathered("n1")
    for kind in kinds:
        number = next(numbers)
        if kind == "event":
            gathered.record(JournalEvent(SESSION_OPENED, number, "acme", session=f"s{number}"))
            continue
        channel = "other" if kind == "other channel" else "news"
        attributes = Attributes(sender="me") if kind == "attributes" else None
        said = message(number, channel=channel, publisher=kind, attributes=attributes)
        gathered.published(said, "e1", "metadata")
    read = events_of(gathered.body())
    named = [int((each.message_id or each.session or "")[1:]) for each in read]
    assert named == [*range(1, len(kinds) + 1)]


def test_messages_that_are_alike_take_a_few_bytes_each() -> None:
    gathered = Gathered("n1")
    for serial in range(1, 1001):
        gathered.published(message(serial), "e1", "metadata")
    assert len(gathered.body()) < 1000 * 32


@given(st.lists(st.integers(-5, 50), max_size=20))
def test_no_event_is_lost_whatever_places_a_writer_gave(places: list[int]) -> None:
    others = [JournalEvent(SESSION_OPENED, 1, "acme", session=str(number)) for number in range(3)]
    shared = Shared(PUBLISHED, "n1", "acme", "news", "e1", False, "e", JSON)
    rows: list[Row] = [(place, 1, f"m{place}", None, 2, None) for place in places]
    read = unpack([*others, (shared, rows)])
    assert len(read) == len(places) + 3
    assert [each for each in read if each.kind == SESSION_OPENED] == others


def decode(gathered: Gathered) -> list[JournalEvent]:
    return list(events_of(gathered.body()))


ALL = Attributes(
    subtype="s",
    author="ann",
    sender="svc",
    receiver="bob",
    conversation_id="c",
    refers_to="m0",
    priority=5,
    relevant_until=2**50,
    ttl=0,
    language="de",
    location={"lat": 1.5, "lng": -2, "name": "home"},
    headers={"plain": "x", "rich": [1, {"a": None}]},
    delivery_policy="at_least_one",
)


@pytest.mark.spec("LIVE-20", "PIPE-06")
@pytest.mark.parametrize("said", [ALL, msgspec.structs.replace(ALL, headers={"k": "[1]"}), None])
def test_the_whole_envelope_comes_back_from_a_sealed_segment(
    tmp_path: Path, said: Attributes | None
) -> None:
    gathered = Gathered("n")
    sent = Message("m1", "demo", "chat", "e", b"1", "text/plain", 1000, 1, attributes=said)
    gathered.published(sent, "e1", "payload")
    seal(tmp_path, *decode(gathered))
    (found,) = read_slice(tmp_path, JournalSlice(hub="demo", channel="chat"))
    assert found.attributes == said


@pytest.mark.spec("LIVE-20")
def test_a_dead_letter_is_no_answer(tmp_path: Path) -> None:
    letter = msgspec.structs.replace(ALL, dead_letter_of="m7")
    gathered = Gathered("n")
    sent = Message("m1", "demo", "chat", "e", b"1", "text/plain", 1000, 1, attributes=letter)
    gathered.published(sent, "e1", "payload")
    (event,) = decode(gathered)
    assert (event.dead_letter_of, event.refers_to, event.conversation_id) == ("m7", None, None)
