"""The file of an outbox: sequences, refusals, limits, and whose it is."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.client import FileInUse, OutboxFull, OutboxMismatch, put_in
from hubbub.client.envelope import fields_of, size_of
from hubbub.client.local_file import FileLock, open_file, transaction
from hubbub.client.outbox import tables
from hubbub.domain.errors import InvalidAttribute, InvalidName, InvalidPayload, NotPermitted
from hubbub.domain.messages import Attributes

pytestmark = pytest.mark.spec("ONCE-02")


@pytest.fixture
def file(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = open_file(tmp_path / "outbox")
    tables.prepare(connection)
    yield connection
    connection.close()


def add(file: sqlite3.Connection, *texts: str, topic: str = "t") -> list[int]:
    return [tables.add(file, tables.draft(topic, text)) for text in texts]


def numbered(file: sqlite3.Connection, topic: str = "t", after: int = 0) -> list[tuple[int, str]]:
    found = tables.waiting(file, topic, after, 100)
    return [(each.sequence, each.item.payload.decode()) for each in found]


def test_each_topic_counts_on_its_own(file: sqlite3.Connection) -> None:
    add(file, "a", "b")
    add(file, "c", topic="u")
    add(file, "d")
    assert numbered(file) == [(1, "a"), (2, "b"), (3, "d")]
    assert numbered(file, "u") == [(1, "c")]
    assert tables.topics_with_messages(file) == ["t", "u"]


def test_what_was_confirmed_is_gone_and_its_sequence_stays_used(file: sqlite3.Connection) -> None:
    first, _ = add(file, "a", "b")
    tables.confirm(file, [first])
    add(file, "c")
    assert numbered(file) == [(2, "b"), (3, "c")]
    assert tables.count_waiting(file) == 2


def test_the_sequence_of_a_refused_message_goes_to_the_next(file: sqlite3.Connection) -> None:
    first, second, _ = add(file, "a", "b", "c")
    tables.confirm(file, [first])
    refusal = tables.refuse(file, second, NotPermitted("no"))
    assert refusal is not None
    assert (refusal.code, refusal.payload) == ("not_permitted", b"b")
    assert numbered(file) == [(2, "c")]
    add(file, "d")
    assert numbered(file) == [(2, "c"), (3, "d")]
    assert tables.refused(file) == [refusal]
    assert tables.count_waiting(file) == 2


def test_only_the_first_that_waits_can_be_refused(file: sqlite3.Connection) -> None:
    """The hub refuses those behind it only because of it."""
    _, second = add(file, "a", "b")
    assert tables.refuse(file, second, NotPermitted("no")) is None
    assert numbered(file) == [(1, "a"), (2, "b")]


def test_a_refused_message_can_be_put_again_or_forgotten(file: sqlite3.Connection) -> None:
    first, second, _ = add(file, "a", "b", "c")
    for place in (first, second):
        tables.refuse(file, place, NotPermitted("no"))
    assert tables.put_again(file, first) == "t"
    tables.forget(file, second)
    assert tables.refused(file) == []
    assert numbered(file) == [(1, "c"), (2, "a")]
    assert tables.count_waiting(file) == 2


@given(st.lists(st.sampled_from(["put", "confirm", "refuse", "lose"]), max_size=40))
def test_sequences_never_have_a_gap_whatever_happens(steps: list[str]) -> None:
    """Against a hub that counts: what waits always begins right behind its last sequence."""
    file = sqlite3.connect(":memory:", isolation_level=None)
    tables.prepare(file)
    last = 0
    for step in steps:
        waiting = tables.waiting(file, "t", 0, 1)
        if step == "put":
            add(file, "x")
        elif step == "lose":
            last //= 2
            tables.reconcile(file, "t", last)
        elif waiting and step == "confirm":
            tables.confirm(file, [waiting[0].place])
            last += 1
        elif waiting:
            assert tables.refuse(file, waiting[0].place, NotPermitted("no"))
        found = [each.sequence for each in tables.waiting(file, "t", 0, 100)]
        assert found == list(range(last + 1, last + 1 + len(found)))
    file.close()


def test_a_hub_that_knows_more_than_the_file_shows_that_the_file_is_old(
    file: sqlite3.Connection,
) -> None:
    add(file, "a", "b")
    tables.reconcile(file, "t", 2)  # both arrived, and nobody was told
    with pytest.raises(OutboxMismatch, match="old copy"):
        tables.reconcile(file, "t", 3)


def test_an_outbox_takes_no_more_than_it_may(tmp_path: Path) -> None:
    file = open_file(tmp_path / "outbox")
    tables.prepare(file, tables.Limits(messages=3, payload_bytes=10))
    first, *_ = add(file, "12345", "1234")
    with pytest.raises(OutboxFull, match="again when the hub took some"):
        add(file, "12")
    tables.confirm(file, [first])
    add(file, "1", "2")
    with pytest.raises(OutboxFull):
        add(file, "3")
    assert tables.count_waiting(file) == 3
    file.close()


def test_an_outbox_is_for_one_hub_and_one_user(file: sqlite3.Connection) -> None:
    tables.belongs_to(file, "acme")
    tables.sent_by(file, "ann")
    tables.belongs_to(file, "acme")
    tables.sent_by(file, "ann")
    with pytest.raises(OutboxMismatch, match="acme"):
        tables.belongs_to(file, "other")
    with pytest.raises(OutboxMismatch, match="ann"):
        tables.sent_by(file, "")


def test_the_producer_is_made_with_the_file(tmp_path: Path, file: sqlite3.Connection) -> None:
    tables.prepare(file)
    again = open_file(tmp_path / "outbox")
    tables.prepare(again)
    assert tables.owner(again).producer == tables.owner(file).producer
    other = open_file(tmp_path / "other")
    tables.prepare(other)
    assert tables.owner(other).producer != tables.owner(file).producer
    again.close()
    other.close()


def test_what_no_hub_would_take_is_never_written_down() -> None:
    with pytest.raises(InvalidName):
        tables.draft("", "x")
    with pytest.raises(InvalidName):
        tables.draft("t", "x", event="a\nb")
    with pytest.raises(InvalidPayload):
        tables.draft("t", b"{", content_type="application/json")


def test_a_file_can_be_locked_once(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "outbox")
    with pytest.raises(FileInUse, match="another process"):
        FileLock(tmp_path / "outbox")
    lock.close()
    FileLock(tmp_path / "outbox").close()


@pytest.mark.parametrize("isolation", ["", None])
def test_a_put_is_part_of_the_applications_transaction(
    tmp_path: Path, isolation: str | None
) -> None:
    own = sqlite3.connect(tmp_path / "app.db", isolation_level=isolation)  # type: ignore[arg-type]
    own.execute("CREATE TABLE orders (item)")
    own.commit()
    for end in ("ROLLBACK", "COMMIT"):
        if isolation is None:
            own.execute("BEGIN IMMEDIATE")
        put_in(own, "t", "message")
        own.execute("INSERT INTO orders VALUES (7)")
        own.execute(end)
        found = own.execute("SELECT count(*) FROM orders").fetchone()[0]
        assert found == (end == "COMMIT")
    assert numbered(own) == [(1, "message")]
    own.close()


def test_a_put_outside_of_a_transaction_is_refused(file: sqlite3.Connection) -> None:
    with pytest.raises(ValueError, match="BEGIN IMMEDIATE"):
        put_in(file, "t", "message")
    with transaction(file):
        put_in(file, "t", "message")
    assert numbered(file) == [(1, "message")]


@pytest.mark.spec("LIVE-20")
def test_the_envelope_is_kept_until_the_hub_has_the_message(file: sqlite3.Connection) -> None:
    given = Attributes(conversation_id="c", ttl=5, headers={"k": [1]})
    place = tables.add(file, tables.draft("t", "a", **fields_of(given)))
    (waiting,) = tables.waiting(file, "t", 0, 10)
    assert waiting.item.attributes == given
    assert held_bytes(file) == size_of(waiting.item) > len("a")
    refusal = tables.refuse(file, place, NotPermitted("no"))
    assert refusal is not None
    assert refusal.attributes == given
    assert tables.refused(file) == [refusal]
    tables.put_again(file, place)
    (again,) = tables.waiting(file, "t", 0, 10)
    assert again.item == waiting.item
    tables.confirm(file, [again.place])
    assert held_bytes(file) == 0


def held_bytes(file: sqlite3.Connection) -> int:
    (found,) = file.execute("SELECT bytes FROM hubbub_outbox").fetchone()
    return int(found)


FORMAT_1 = (
    *(
        f"ALTER TABLE {table} DROP COLUMN attributes"
        for table in ("hubbub_outbox_messages", "hubbub_outbox_refused")
    ),
    "UPDATE hubbub_outbox SET format = 1",
)


@pytest.mark.parametrize("by", ["outbox", "application"])
def test_a_file_of_the_first_format_goes_on(file: sqlite3.Connection, by: str) -> None:
    add(file, "old")
    for statement in FORMAT_1:
        file.execute(statement)
    if by == "outbox":
        tables.prepare(file)
        add(file, "new")
    else:
        with transaction(file):
            put_in(file, "t", "new", refers_to="m")
    assert numbered(file) == [(1, "old"), (2, "new")]


@pytest.mark.spec("LIVE-20")
@pytest.mark.parametrize(
    "wrong", [{"ttl": -1}, {"ttl": "5"}, {"headers": {"k": object()}}, {"location": [1]}]
)
def test_an_envelope_that_no_hub_takes_is_never_written_down(
    file: sqlite3.Connection, wrong: Any
) -> None:
    with pytest.raises(InvalidAttribute), transaction(file):
        put_in(file, "t", "new", **wrong)
    with pytest.raises(TypeError, match="conversationID"), transaction(file):
        put_in(file, "t", "new", conversationID="c")  # type: ignore[call-arg]
    assert numbered(file) == []
