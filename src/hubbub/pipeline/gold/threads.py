"""Threads as a whole: who took part, how long they went on, what they crossed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.gold.columns import FLAG, REAL, TEXT, TIME, WHOLE, schema
from hubbub.pipeline.grouping import Groups, named
from hubbub.pipeline.tables import arrow_table

SCHEMA = schema(
    hub=TEXT,
    thread=TEXT,
    started_by=TEXT,
    first_at=TIME,
    last_at=TIME,
    duration=WHOLE,
    messages=WHOLE,
    participants=WHOLE,
    channels=WHOLE,
    conversations=WHOLE,
    crosses=FLAG,
    answers=WHOLE,
    response_mean=REAL,
)


def compute(sources: Mapping[str, pa.Table], _: str) -> pa.Table:
    """`crosses`: it spans several channels or conversations."""
    messages, replies = sources["thread_messages"], sources["replies"]
    groups = Groups(messages, ("hub", "thread"))
    at = messages["at"].cast(pa.int64())
    threads = groups.added(
        {
            "first": (at, "min"),
            "last": (at, "max"),
            "messages": (pa.repeat(1, len(messages)), "sum"),
        }
    )
    counts = {
        name: pa.array(groups.different(messages[column]))
        for name, column in (
            ("participants", "peer"),
            ("channels", "channel"),
            ("conversations", "conversation_id"),
        )
    }
    several = pc.or_(pc.greater(counts["channels"], 1), pc.greater(counts["conversations"], 1))
    answers, mean = _answers(groups, messages, replies)
    starts = np.flatnonzero(messages["position"].to_numpy() == 1)
    start_of = np.zeros(len(groups), np.int64)
    start_of[groups.ids[starts]] = starts
    time = pa.timestamp("us", "UTC")
    more = {
        **counts,
        "started_by": messages["peer"].take(pa.array(start_of)),
        "first_at": threads["first"].cast(time),
        "last_at": threads["last"].cast(time),
        "duration": pc.subtract(threads["last"], threads["first"]),
        "crosses": several,
        "answers": answers,
        "response_mean": mean,
    }
    for name, column in more.items():
        threads = threads.append_column(name, column)
    return threads


def _answers(groups: Groups, messages: pa.Table, replies: pa.Table) -> tuple[pa.Array, pa.Array]:
    """How many there are in each thread, and the mean time that they took."""
    names = named(messages["hub"], messages["message_id"]).combine_chunks()
    places = pc.index_in(named(replies["hub"], replies["answer_id"]), names)
    inside = pc.is_valid(places)
    thread = groups.ids[places.filter(inside).to_numpy()]
    took = replies["response_time"].filter(inside)
    is_known = pc.is_valid(took).to_numpy()
    answers = np.bincount(thread, minlength=len(groups))
    times = np.bincount(thread, pc.fill_null(took, 0).to_numpy(), minlength=len(groups))
    measured = np.bincount(thread, is_known, minlength=len(groups))
    with np.errstate(invalid="ignore"):
        return pa.array(answers), pa.array(times / measured, from_pandas=True)


TABLE = arrow_table(
    "threads",
    SCHEMA,
    {
        "thread_messages": (
            "hub",
            "thread",
            "position",
            "message_id",
            "at",
            "channel",
            "peer",
            "conversation_id",
        ),
        "replies": ("hub", "answer_id", "response_time"),
    },
    compute,
    key=("hub", "thread"),
)
