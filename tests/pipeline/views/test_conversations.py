"""Replies, peers and threads, against what a reader of the messages would say."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.views import clock, records, rows, talks, view
from hubbub.pipeline.transforms.components import roots

pytestmark = pytest.mark.timeout(300)
SECOND = 1_000_000


def message(name: str, at: str, user: str | None, **more: Any) -> dict[str, Any]:
    return {"message_id": name, "at": clock(at), "user": user, **more}


@pytest.mark.spec("PIPE-03")
def test_who_answered_what_and_after_how_long() -> None:
    sources = talks(
        messages=[
            message("q", "10:00:00", "ann"),
            message("a", "10:00:30", "bob", refers_to="q"),
            message("late", "12:00:00", "cem", refers_to="q"),
            message("lost", "12:00:00", "cem", refers_to="unknown"),
            message("early", "09:59:00", "dan", refers_to="q"),  # a clock that is behind
            message("elsewhere", "12:00:00", "eve", refers_to="q", hub="other"),
            message("c1", "11:00:00", "ann", conversation_id="c"),
            message("c2", "11:00:10", "ann", conversation_id="c"),
            message("c3", "11:00:15", "bob", conversation_id="c"),
            message("c4", "11:00:16", "bob", conversation_id="c"),
            message("c5", "11:01:16", "ignored", sender="ann", conversation_id="c"),
            message("nobody", "13:00:00", None, author="fay", refers_to="a"),
            message("known", "13:00:00", "bob", author="fay", refers_to="c1"),
        ],
    )
    columns = ("answer_id", "question_id", "how", "asker", "answerer", "response_time")
    assert rows(view("replies", sources), *columns) == [
        ("a", "q", "reference", "ann", "bob", 30 * SECOND),
        ("c3", "c2", "conversation", "ann", "bob", 5 * SECOND),
        ("c5", "c4", "conversation", "bob", "ann", 60 * SECOND),
        ("early", "q", "reference", "ann", "dan", 0),
        ("elsewhere", "q", "reference", None, "eve", None),
        ("known", "c1", "reference", "ann", "bob", 2 * 3600 * SECOND),
        ("late", "q", "reference", "ann", "cem", 2 * 3600 * SECOND),
        ("lost", "unknown", "reference", None, "cem", None),
        ("nobody", "a", "reference", "bob", "fay", 10_770 * SECOND),
    ]


@pytest.mark.spec("PIPE-03", "COMM-08")
def test_reports_of_the_hub_about_messages_to_peers_are_no_answers() -> None:
    log = {"channel": "comm:log", "refers_to": "q", "conversation_id": "c"}
    sources = talks(
        messages=[
            message("q", "10:00:00", "ann", channel="comm:log", conversation_id="c"),
            message("ack", "10:00:01", "bob", event="CONTROL", subtype="ACK", **log),
            message("renew", "10:00:02", "bob", event="AUTH", subtype="FAILED", **log),
            message("info", "10:00:03", "bob", event="MESSAGEINFO", subtype="REPLY", **log),
            message("answer", "10:00:30", "bob", event="reply", **log),
            message("elsewhere", "10:01:00", "cem", event="CONTROL", refers_to="q"),
        ],
    )
    assert rows(view("replies", sources), "answer_id", "response_time") == [
        ("answer", 30 * SECOND),
        ("elsewhere", 60 * SECOND),
    ]


@pytest.mark.spec("PIPE-03")
def test_profiles_of_peers() -> None:
    sources = talks(
        messages=[
            message("q1", "10:00:00", "ann", size=10),
            message("q2", "10:00:01", "ann", size=10),
            message("a1", "10:00:04", "bob", refers_to="q1"),
            message("a2", "11:00:01", "bob", refers_to="q2"),
            message("own", "11:00:02", "bob", refers_to="a2"),
            message("more", "11:00:03", "bob"),
        ],
        sessions=[
            {
                "user": "ann",
                "session": "s",
                "opened_at": clock("09:00"),
                "closed_at": clock("10:30"),
                "duration": 90 * 60 * SECOND,
            }
        ],
        attempts=[
            {"at": clock("10:00"), "peer": "cem"},
            {"at": clock("10:01"), "peer": "cem", "outcome": "refused"},
        ],
    )
    columns = (
        "peer", "first_at", "last_at", "messages", "bytes", "active_hours", "busiest_hour",
        "sessions", "session_time", "questions_answered", "answers", "reached",
    )  # fmt: skip
    assert rows(view("peers", sources), *columns) == [
        ("ann", clock("09:00"), clock("10:30"), 2, 20, 1, 10, 1, 5400 * SECOND, 2, 0, None),
        ("bob", clock("10:00:04"), clock("11:00:03"), 4, 400, 2, 11, 0, 0, 0, 2, None),
        ("cem", None, None, 0, 0, 0, None, 0, 0, 0, 0, 0.5),
    ]
    (bob,) = records(view("responses", sources))
    assert (bob.peer, bob.day, bob.answers, bob.askers) == ("bob", "2026-11-02", 2, 1)
    assert (bob.response_min, bob.response_max) == (4 * SECOND, 3600 * SECOND)
    assert bob.response_mean == 1802 * SECOND


@pytest.mark.spec("PIPE-03")
def test_threads_by_conversation_by_reply_and_across() -> None:
    sources = talks(
        messages=[
            # A chain of replies without a conversation.
            message("m1", "10:00", "ann"),
            message("m2", "10:01", "bob", refers_to="m1"),
            message("m3", "10:02", "ann", refers_to="m2", channel="side"),
            # Two conversations that a reply joins.
            message("x1", "11:00", "ann", conversation_id="x"),
            message("y1", "11:01", "bob", conversation_id="y"),
            message("x2", "11:02", "cem", conversation_id="x", refers_to="y1"),
            # A conversation by itself, and a message that belongs to nothing.
            message("z1", "12:00", "ann", conversation_id="z"),
            message("alone", "12:00", "ann"),
        ],
    )
    assert rows(view("thread_messages", sources), "thread", "position", "message_id") == [
        ("m1", 1, "m1"),
        ("m1", 2, "m2"),
        ("m1", 3, "m3"),
        ("x1", 1, "x1"),
        ("x1", 2, "y1"),
        ("x1", 3, "x2"),
        ("z1", 1, "z1"),
    ]
    columns = (
        "thread", "started_by", "messages", "participants", "channels", "conversations", "crosses",
        "answers", "duration", "response_mean",
    )  # fmt: skip
    minute = 60 * SECOND
    assert rows(view("threads", sources), *columns) == [
        ("m1", "ann", 3, 2, 2, 0, True, 2, 2 * minute, 1.0 * minute),
        ("x1", "ann", 3, 3, 1, 2, True, 1, 2 * minute, 1.0 * minute),
        ("z1", "ann", 1, 1, 1, 1, False, 0, 0, None),
    ]


@pytest.mark.spec("PIPE-03")
def test_a_chain_of_hundreds_of_replies_is_one_thread() -> None:
    """Ids in no order, so that labels cannot simply be handed down."""
    names = [f"{(place * 7919) % 1009:04}" for place in range(400)]
    chain = [message(names[0], "10:00", "ann")] + [
        message(name, f"10:{place // 60}:{place % 60}", "bob", refers_to=before)
        for place, (before, name) in enumerate(itertools.pairwise(names))
    ]
    other = [message("p", "10:00", "ann"), message("q", "10:01", "bob", refers_to="p")]
    (first, second) = sorted(
        records(view("threads", talks(messages=[*chain, *other]))),
        key=lambda row: -row.messages,
    )
    assert (first.messages, second.messages) == (400, 2)
    assert first.thread == names[0]


@pytest.mark.spec("PIPE-03")
def test_components_of_rings_chains_stars_and_loops_are_found() -> None:
    ring = [(place, (place + 1) % 9) for place in range(9)]
    chain = [(10 + (place * 7) % 31, 10 + ((place + 1) * 7) % 31) for place in range(30)]
    star = [(55, leaf) for leaf in (51, 52, 58, 59)]
    edges = [*ring, *chain, *star, (60, 61), (61, 60), (62, 62)]
    ends = np.array(edges)
    found = roots(ends[:, 0], ends[:, 1], 64)
    expected = {**dict.fromkeys(range(9), 0), **dict.fromkeys(range(10, 41), 10)}
    expected |= {**dict.fromkeys((51, 52, 55, 58, 59), 51), 61: 60}
    assert found.tolist() == [expected.get(node, node) for node in range(64)]


@given(
    st.integers(1, 40).flatmap(
        lambda nodes: st.tuples(
            st.just(nodes),
            st.lists(st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1))),
        )
    )
)
def test_components_are_those_that_walking_the_edges_finds(
    graph: tuple[int, list[tuple[int, int]]],
) -> None:
    nodes, edges = graph
    labels = list(range(nodes))
    for _ in range(nodes):
        for a, b in edges:
            labels[a] = labels[b] = min(labels[a], labels[b])
    ends = np.array(edges, np.int64).reshape(-1, 2)
    assert roots(ends[:, 0], ends[:, 1], nodes).tolist() == labels
