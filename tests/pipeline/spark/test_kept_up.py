"""Tables that are kept up have the rows that a rebuild gives them, whatever came when."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.histories import RandomHistory
from harness.segments import HOUR, NOON, Pipeline, published, replace_segments
from hubbub.pipeline.jobs import months, upkeep, work
from hubbub.pipeline.jobs import threads as jobs
from hubbub.pipeline.tables.snapshot import Snapshot
from hubbub.pipeline.views import VIEWS

pytestmark = [pytest.mark.spec("PIPE-02"), pytest.mark.timeout(600)]
DAY = 24 * HOUR


@pytest.fixture
def talks(spark: SparkSession, tmp_path: Path) -> Pipeline:
    return Pipeline(spark, tmp_path)


def same_as_a_rebuild(pipeline: Pipeline) -> None:
    kept = pipeline.everything()
    pipeline.run(full=True)
    same(kept, pipeline.everything())


def same(kept: dict[str, list[Any]], rebuilt: dict[str, list[Any]]) -> None:
    for name, rows in kept.items():
        assert rows == rebuilt[name], name


def test_a_history_that_comes_in_parts_and_not_in_order(talks: Pipeline) -> None:
    for _ in RandomHistory(seed=1, events=120).rounds(talks, 4):
        talks.run()
    same_as_a_rebuild(talks)
    assert len({row["month"] for row in talks.rows("peer_months")}) == 3
    the_same_by_month_as_from_facts(talks.snapshot)


def the_same_by_month_as_from_facts(snapshot: Snapshot) -> None:
    """What runs and peers add up to does not depend on months."""
    audit = VIEWS["audit"].evaluate({"sequence_months": snapshot.read("sequence_facts")})
    assert sorted(map(repr, audit.to_pylist())) == sorted(
        map(repr, snapshot.read("audit").to_pylist())
    )
    sums: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    written = snapshot.read("peer_facts").to_pylist()
    for row in written:
        counts = ("messages", "bytes", "attempts", "attempts_ok")
        sums[row["hub"], row["peer"]].update({name: row[name] for name in counts})
    for hub, peer, _ in {
        (row["hub"], row["peer"], row["time"]) for row in written if row["messages"]
    }:
        sums[hub, peer]["active_hours"] += 1
    for row in snapshot.read("sessions").to_pylist():
        found = {"sessions": 1, "session_time": row["duration"] or 0}
        sums[row["hub"], row["user"]].update(found)
    for row in snapshot.read("responses").to_pylist():
        sums[row["hub"], row["peer"]]["answers"] += row["answers"]
    questions = {
        (row["hub"], row["asker"], row["question_id"])
        for row in snapshot.read("replies").to_pylist()
        if row["asker"] not in (None, row["answerer"])
    }
    for hub, asker, _ in questions:
        sums[hub, asker]["questions_answered"] += 1
    peers = {(row["hub"], row["peer"]): row for row in snapshot.read("peers").to_pylist()}
    assert {key: {name: peers[key][name] for name in found} for key, found in sums.items()} == sums
    assert peers.keys() == sums.keys()


def test_a_history_whose_threads_are_spread_over_tasks(
    talks: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rebuild with all of them in one task has the same rows."""
    with monkeypatch.context() as patched:
        patched.setattr(jobs, "LINKS_OF_A_TASK", 20)
        for name in ("_BROADCAST_ROWS", "_LEAST_ROWS"):
            patched.setattr(work, name, 20)
        for _ in RandomHistory(seed=21, events=100).rounds(talks, 3):
            talks.run()
    assert len(talks.snapshot.files("linked_messages")) > 1
    same_as_a_rebuild(talks)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 10))
def test_more_histories_after_every_round(talks: Pipeline, seed: int) -> None:
    rebuilt = Pipeline(talks.spark, talks.journal.parent / "rebuilt")
    rebuilt.journal = talks.journal
    for _ in RandomHistory(seed, events=200).rounds(talks, 7):
        talks.run()
        rebuilt.run(full=True)
        same(talks.everything(), rebuilt.everything())


def test_months_and_keys_that_nothing_touches_keep_their_totals(talks: Pipeline) -> None:
    talks.write("one", published(1, NOON - 60 * DAY), published(2, NOON - 60 * DAY, user="bob"))
    talks.run()
    old = {file.path for file in talks.snapshot.files("peer_months")}
    talks.write("two", published(3), published(4, user="bob"))
    talks.run()
    assert old < {file.path for file in talks.snapshot.files("peer_months")}
    assert [(row["peer"], row["messages"]) for row in talks.rows("peers")] == [
        ("ann", 2),
        ("bob", 2),
    ]
    late = talks.write("three", published(5, NOON - 60 * DAY))
    talks.run()
    assert not old & {file.path for file in talks.snapshot.files("peer_months")}
    assert [row["messages"] for row in talks.rows("peer_months")] == [1, 2, 1, 1]
    late.unlink()
    replace_segments(talks.journal, 1, ["two"], [])
    talks.run()
    assert [(row["peer"], row["messages"]) for row in talks.rows("peers")] == [
        ("ann", 2),
        ("bob", 1),
    ]


def test_tables_of_before_get_their_totals_with_the_next_round(
    talks: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    talks.write("one", published(1, producer="p", sequence=1))
    with monkeypatch.context() as patched:
        patched.setattr(months, "TOTALS", ())
        talks.run()
    assert talks.rows("peers") == talks.rows("audit") == []
    assert talks.run().tables
    assert [row["peer"] for row in talks.rows("peers")] == ["ann"]
    assert [row["verdict"] for row in talks.rows("audit")] == ["exactly once"]
    assert not talks.run().tables


def test_an_answer_to_a_message_of_an_older_run(talks: Pipeline) -> None:
    talks.write("one", published(1), published(2, NOON + HOUR, user="bob"))
    talks.run()
    assert talks.rows("replies") == talks.rows("threads") == []
    talks.write("two", published(3, NOON + 3 * HOUR, user="cem", refers_to="m1"))
    talks.run()
    (reply,) = talks.rows("replies")
    assert (reply["asker"], reply["answerer"], reply["response_time"]) == ("ann", "cem", 3 * HOUR)
    assert [row["message_id"] for row in talks.rows("thread_messages")] == ["m1", "m3"]
    same_as_a_rebuild(talks)


def test_a_question_that_comes_after_its_answer(talks: Pipeline) -> None:
    talks.write("one", published(2, NOON + 5 * HOUR, user="bob", refers_to="m1"))
    talks.run()
    assert [row["asker"] for row in talks.rows("replies")] == [None]
    talks.write("two", published(1, NOON))
    talks.run()
    assert [row["asker"] for row in talks.rows("replies")] == ["ann"]
    assert [row["thread"] for row in talks.rows("thread_messages")] == ["m1", "m1"]
    same_as_a_rebuild(talks)


def test_a_thread_that_goes_on_days_later_and_joins_two(talks: Pipeline) -> None:
    talks.write(
        "one",
        published(1, NOON, conversation_id="a"),
        published(2, NOON + 1, conversation_id="b"),
        published(3, NOON + 2, conversation_id="c"),
        published(4, NOON + HOUR, conversation_id="b", user="bob"),
    )
    talks.run()
    assert [row["messages"] for row in talks.rows("threads")] == [1, 2, 1]
    talks.now += 4 * DAY
    talks.write("two", published(5, NOON + 3 * DAY, conversation_id="a", refers_to="m4"))
    talks.run()
    found = {row["thread"]: row["messages"] for row in talks.rows("threads")}
    assert found == {"m1": 4, "m3": 1}
    same_as_a_rebuild(talks)


def test_a_late_message_comes_between_two_of_a_conversation(talks: Pipeline) -> None:
    """It is by the one who wrote the second, who now answers nobody."""
    talks.write(
        "one",
        published(1, NOON, conversation_id="a"),
        published(2, NOON + 6 * HOUR, conversation_id="a", user="bob"),
    )
    talks.run()
    talks.write("two", published(3, NOON + 3 * HOUR, conversation_id="a", user="bob"))
    talks.run()
    assert [(row["question_id"], row["answer_id"]) for row in talks.rows("replies")] == [
        ("m1", "m3")
    ]
    same_as_a_rebuild(talks)


def test_a_message_that_comes_again_changes_nothing(talks: Pipeline) -> None:
    first = published(1, NOON, conversation_id="a")
    answer = published(2, NOON + HOUR, conversation_id="a", user="bob")
    talks.write("one", first, answer)
    talks.run()
    before = talks.everything()
    talks.write("two", answer, published(9, NOON + 2 * HOUR))
    talks.run()
    after = talks.everything()
    assert [after[name] for name in ("replies", "thread_messages", "threads")] == [
        before[name] for name in ("replies", "thread_messages", "threads")
    ]
    same_as_a_rebuild(talks)


def test_threads_that_nothing_touches_keep_their_files(talks: Pipeline) -> None:
    talks.write("one", published(1, NOON, conversation_id="a"))
    talks.run()
    talks.write("two", published(2, NOON + HOUR, conversation_id="b"))
    talks.run()
    before = {file.path for file in talks.snapshot.files("linked_messages")}
    talks.write("three", published(3, NOON + 2 * HOUR, conversation_id="b", user="bob"))
    talks.run()
    after = {file.path for file in talks.snapshot.files("linked_messages")}
    assert len(before) == len(after) == 2
    assert len(before & after) == 1


@pytest.mark.spec("PIPE-05")
def test_small_files_that_pile_up_are_joined_by_the_round(
    talks: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "PILE", 3)
    for number in range(1, 4):
        talks.write(f"s{number}", published(number, NOON + number, conversation_id=f"c{number}"))
        talks.run()
    assert {len(talks.snapshot.files(name)) for name in ("messages", "linked_messages")} == {1}
    assert len(talks.rows("messages")) == 3
    same_as_a_rebuild(talks)
