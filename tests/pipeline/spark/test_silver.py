"""Silver tables: each event once and typed, however it comes."""

from __future__ import annotations

import pytest

from harness.segments import (
    HOUR,
    NOON,
    Pipeline,
    delivered,
    node_started,
    published,
    replace_segments,
    session_closed,
    session_opened,
    subscribed,
    unsubscribed,
)

pytestmark = [pytest.mark.spec("PIPE-02"), pytest.mark.timeout(300)]

SECOND = 1_000_000


def test_an_event_becomes_a_typed_row(pipeline: Pipeline) -> None:
    pipeline.write("a", published(1, headers={"x": "y"}), delivered(1, NOON + 1))
    summary = pipeline.run()
    (message,) = pipeline.rows("messages")
    assert (message["message_id"], message["at"].isoformat()) == (
        "m1",
        "2026-11-15T12:00:00+00:00",
    )
    assert (message["segment"], message["offset"], message["headers"]) == ("a", 0, [("x", "y")])
    (delivery,) = pipeline.rows("deliveries")
    assert (delivery["count"], delivery["latency_buckets"]) == (3, [(61, 3)])
    assert (summary.segments, summary.events) == (1, 2)


def test_a_rerun_changes_nothing_and_needs_no_spark(pipeline: Pipeline) -> None:
    pipeline.write("a", published(1), delivered(1), session_opened("s1"))
    pipeline.run()
    before = pipeline.snapshot.round
    pipeline.spark = None  # type: ignore[assignment]
    summary = pipeline.run()
    assert summary.events == 0
    assert pipeline.snapshot.round == before


def test_new_segments_are_added_to_what_is_there(pipeline: Pipeline) -> None:
    pipeline.write("a", published(1))
    pipeline.run()
    pipeline.write("b", published(2), published(3, NOON + HOUR))
    pipeline.run()
    assert [row["message_id"] for row in pipeline.rows("messages")] == ["m1", "m2", "m3"]


def test_late_events_count_in_the_hour_in_which_they_happened(pipeline: Pipeline) -> None:
    pipeline.write("b", published(2, NOON + 5 * HOUR))
    pipeline.run()
    pipeline.write("a", published(1, NOON))
    assert pipeline.run().late == 1
    found = [(row["hour"], row["messages"]) for row in pipeline.rows("channels")]
    assert found == [("2026-11-15T12", 1), ("2026-11-15T17", 1)]


def test_a_message_that_was_journalled_twice_is_one_row_whatever_comes_first(
    pipeline: Pipeline,
) -> None:
    pipeline.write("b", published(1, node="second"), published(2))
    pipeline.run()
    pipeline.write("a", published(1, node="first"))
    pipeline.run()
    found = {row["message_id"]: row["segment"] for row in pipeline.rows("messages")}
    assert found == {"m1": "a", "m2": "b"}
    incremental = pipeline.everything()
    pipeline.run(full=True)
    assert pipeline.everything() == incremental


def test_a_session_is_put_together_from_events_of_different_rounds(pipeline: Pipeline) -> None:
    pipeline.write("a", session_opened("s1"), session_opened("s2", NOON + SECOND))
    pipeline.run()
    assert [row["closed_at"] for row in pipeline.rows("sessions")] == [None, None]
    pipeline.write("b", session_closed("s1", NOON + 2 * HOUR))
    pipeline.run()
    rows = {row["session"]: row for row in pipeline.rows("sessions")}
    assert rows["s1"]["duration"] == 2 * HOUR
    assert (rows["s1"]["reason"], rows["s1"]["user"]) == ("bye", "ann")
    assert rows["s2"]["closed_at"] is None


def test_an_end_that_comes_before_its_beginning_waits_for_it(pipeline: Pipeline) -> None:
    pipeline.write("b", session_closed("s1", NOON + HOUR, duration=HOUR - SECOND))
    pipeline.run()
    (row,) = pipeline.rows("sessions")
    assert (row["duration"], row["user"]) == (HOUR - SECOND, None)
    pipeline.write("a", session_opened("s1", NOON - SECOND))
    pipeline.run()
    (row,) = pipeline.rows("sessions")
    assert (row["duration"], row["user"], row["opened_at"].hour) == (HOUR + SECOND, "ann", 11)


def test_subscriptions_of_a_session_are_told_apart(pipeline: Pipeline) -> None:
    pipeline.write(
        "a",
        subscribed("s1", NOON),
        unsubscribed("s1", NOON + SECOND),
        subscribed("s1", NOON + 2 * SECOND),
        subscribed("s1", NOON, channel="other"),
        subscribed("s2", NOON),
        subscribed("s2", NOON + 4 * SECOND),
    )
    pipeline.run()
    pipeline.write("b", unsubscribed("s1", NOON + 5 * SECOND))
    pipeline.run()
    found = sorted(
        (row["session"], row["channel"], row["duration"])
        for row in pipeline.rows("subscriptions")
        if row["duration"]
    )
    assert found == [
        ("s1", "news", SECOND),
        ("s1", "news", 3 * SECOND),
        ("s2", "news", 4 * SECOND),
    ]
    assert len(pipeline.rows("subscriptions")) == 5
    incremental = pipeline.everything()
    pipeline.run(full=True)
    assert pipeline.everything() == incremental


def test_what_a_replaced_segment_gave_goes_and_comes_from_its_successor(
    pipeline: Pipeline,
) -> None:
    pipeline.write("a", published(1), published(2, user="bob"), delivered(1), session_opened("s1"))
    pipeline.write("b", published(1, node="copy"), session_closed("s1", NOON + HOUR))
    pipeline.run()
    pipeline.write("c", published(2, user=None), delivered(1))
    replace_segments(pipeline.journal, 1, ["a"], ["c"])
    assert pipeline.run().retracted == 1
    found = [(row["message_id"], row["segment"], row["user"]) for row in pipeline.rows("messages")]
    assert found == [("m1", "b", "ann"), ("m2", "c", None)]
    assert [row["segment"] for row in pipeline.rows("deliveries")] == ["c"]
    (session,) = pipeline.rows("sessions")
    assert (session["user"], len(session["events"])) == (None, 1)
    incremental = pipeline.everything()
    pipeline.run(full=True)
    assert pipeline.everything() == incremental


def test_sessions_of_a_killed_node_end_with_its_next_start(pipeline: Pipeline) -> None:
    pipeline.write(
        "a",
        node_started(NOON - HOUR),
        session_opened("s1", NOON),
        session_opened("s2", NOON, node="n2"),
        subscribed("s1", NOON + SECOND),
    )
    pipeline.run()
    assert [row["closed_at"] for row in pipeline.rows("sessions")] == [None, None]
    pipeline.write("b", node_started(NOON + HOUR), session_opened("s3", NOON + 2 * HOUR))
    pipeline.run()
    found = {row["session"]: (row["duration"], row["reason"]) for row in pipeline.rows("sessions")}
    assert found == {"s1": (HOUR, "node_gone"), "s2": (None, None), "s3": (None, None)}
    assert [row["duration"] for row in pipeline.rows("subscriptions")] == [HOUR - SECOND]
    kept = pipeline.everything()
    pipeline.run(full=True)
    assert pipeline.everything() == kept


def test_sessions_of_a_node_that_was_heard_no_more_end_with_what_it_said_last(
    pipeline: Pipeline,
) -> None:
    """Should the node be heard again, they go on."""
    pipeline.now = NOON + 40 * HOUR
    pipeline.write("a", session_opened("s1", NOON, node="n2"), published(1, NOON + HOUR, node="n2"))
    pipeline.write("b", published(2, NOON + 30 * HOUR))
    pipeline.run()
    (session,) = pipeline.rows("sessions")
    assert (session["duration"], session["reason"]) == (HOUR + 1, "node_gone")
    pipeline.write("c", published(3, NOON + 31 * HOUR, node="n2"))
    pipeline.run()
    assert [row["closed_at"] for row in pipeline.rows("sessions")] == [None]
