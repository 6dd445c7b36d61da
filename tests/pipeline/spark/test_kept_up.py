"""Tables that are kept up have the rows that a rebuild gives them, whatever came when."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.histories import RandomHistory
from harness.segments import HOUR, NOON, Pipeline, plain, published, replace_segments
from harness.views import evaluated
from hubbub.pipeline.catalogue import TABLES
from hubbub.pipeline.errors import WarehouseUnreadable
from hubbub.pipeline.jobs import gold, rounds, upkeep, work
from hubbub.pipeline.jobs import threads as jobs
from hubbub.pipeline.models import MODELS, parsed
from hubbub.pipeline.models.evaluating import connected
from hubbub.pipeline.tables.rounds import RoundLock, versions
from hubbub.pipeline.tables.snapshot import Snapshot

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
    every_model_says_the_same_of_all_silver(talks)
    peers_did_what_silver_says(talks.snapshot)
    same_as_a_rebuild(talks)
    assert len({row["month"] for row in talks.rows("peer_totals")}) == 3


@pytest.mark.spec("PIPE-08")
def test_models_say_the_same_in_spark_and_in_duckdb(
    talks: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts of a history in Spark, and a rebuild of it in DuckDB."""
    with monkeypatch.context() as patched:
        patched.setattr(gold, "DUCKDB_ROWS", -1)
        for _ in RandomHistory(seed=31, events=80).rounds(talks, 2):
            talks.run()
    every_model_says_the_same_of_all_silver(talks)
    same_as_a_rebuild(talks)


def every_model_says_the_same_of_all_silver(pipeline: Pipeline) -> None:
    """Tables that were made in parts have the rows of the model over everything."""
    snapshot = pipeline.snapshot
    recent = {
        source: model.recent_hours for model in MODELS.values() for source in model.reads
        if model.recent_hours
    }  # fmt: skip
    with connected() as connection:
        for name in TABLES.keys() - MODELS.keys():
            connection.register(name, snapshot.read(name))
        for model in MODELS.values():
            rows = evaluated(connection, model)
            if model.recent_hours is None:
                found = sorted((plain(row) for row in rows.to_pylist()), key=repr)
                assert pipeline.rows(model.name) == found, model.name
            connection.register(model.name, rows)
    assert recent.keys() == {"channels", "terms"}


def peers_did_what_silver_says(snapshot: Snapshot) -> None:
    sums: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    hours = set()
    for row in snapshot.read("messages").to_pylist():
        peer = row["sender"] or row["user"] or row["author"]
        sums[row["hub"], peer].update(messages=1, bytes=row["size"])
        hours.add((row["hub"], peer, row["at"].replace(minute=0, second=0, microsecond=0)))
    for hub, peer, _ in hours:
        sums[hub, peer]["active_hours"] += 1
    for row in snapshot.read("attempts").to_pylist():
        sums[row["hub"], row["peer"]].update(attempts=1, attempts_ok=row["outcome"] == "ok")
    for row in snapshot.read("sessions").to_pylist():
        sums[row["hub"], row["user"]].update(sessions=1, session_time=row["duration"] or 0)
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


def test_partitions_that_nothing_touches_keep_their_files(talks: Pipeline) -> None:
    def files(table: str) -> set[str]:
        return {file.path for file in talks.snapshot.files(table)}

    def months() -> list[int]:
        return [row["messages"] for row in talks.rows("peer_totals") if row["hour"] is None]

    talks.write("one", published(1, NOON - 60 * DAY), published(2, NOON - 60 * DAY, user="bob"))
    talks.run()
    old = {table: files(table) for table in ("traffic", "peer_totals")}
    talks.write("two", published(3), published(4, user="bob"))
    talks.run()
    assert all(old[table] < files(table) for table in old)
    assert [(row["peer"], row["messages"]) for row in talks.rows("peers")] == [
        ("ann", 2),
        ("bob", 2),
    ]
    late = talks.write("three", published(5, NOON - 60 * DAY))
    talks.run()
    assert not any(old[table] & files(table) for table in old)
    assert sorted(months()) == [1, 1, 1, 2]
    late.unlink()
    replace_segments(talks.journal, 1, ["two"], [])
    talks.run()
    assert [(row["peer"], row["messages"]) for row in talks.rows("peers")] == [
        ("ann", 2),
        ("bob", 1),
    ]
    assert [row["messages_in"] for row in talks.rows("traffic")] == [3]


def test_an_hour_is_made_again_beside_others_of_its_file(talks: Pipeline) -> None:
    """A reader that has the old version open still has its rows."""
    talks.write("one", *(published(number, NOON + number * HOUR) for number in range(4)))
    talks.run()
    before = talks.snapshot
    assert len(before.files("traffic")) == 1
    talks.write("two", published(9, NOON + 2 * HOUR))
    talks.run()
    assert before.read("traffic")["messages_in"].to_pylist() == [1, 1, 1, 1]
    assert sorted(talks.snapshot.read("traffic")["messages_in"].to_pylist()) == [1, 1, 1, 2]
    assert len(talks.snapshot.files("traffic")) == 1


def test_tables_of_before_get_their_answers_with_the_next_round(
    talks: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that this version does without are deleted."""
    talks.write("one", published(1, producer="p", sequence=1))
    with monkeypatch.context() as patched:
        patched.setattr(rounds, "gold", lambda *_: None)
        patched.setattr(rounds, "fingerprints", dict)
        talks.run()
    old = talks.warehouse.path / "publish_facts" / "_delta_log"
    old.mkdir(parents=True)
    (old / "00000000000000000000.json").write_text("{}")
    lock = RoundLock(talks.warehouse)
    with lock.running(lambda: talks.now):
        lock.finish(layout=1, versions={**versions(talks.warehouse), "publish_facts": 0})
    with pytest.raises(WarehouseUnreadable, match=r"did not make the table peers, .* pipeline run"):
        talks.rows("peers")
    assert talks.run().tables
    assert [row["peer"] for row in talks.rows("peers")] == ["ann"]
    assert [row["verdict"] for row in talks.rows("audit")] == ["exactly once"]
    assert not talks.run().tables
    assert not old.exists()


@pytest.mark.spec("PIPE-08")
def test_a_changed_model_is_made_again_and_others_are_not(
    talks: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    talks.write("one", published(1), published(2, NOON - 40 * DAY))
    talks.run()
    files = {name: talks.snapshot.files(name) for name in TABLES}
    changed = parsed("channels", f"{MODELS['channels'].text}-- It was changed.\n")
    with monkeypatch.context() as patched:
        patched.setitem(MODELS, "channels", changed)
        assert talks.run().tables
        assert not talks.run().tables
        after = {name for name in TABLES if talks.snapshot.files(name) != files[name]}
        assert {"channels"} < after <= {"channels", "trending", "segments"}
        assert len(talks.rows("channels")) == 2


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
