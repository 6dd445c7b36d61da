"""Threads as a whole: who took part, how long they went on, what they crossed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.gold.columns import FLAG, REAL, TEXT, TIME, WHOLE, schema
from hubbub.pipeline.gold_tables import arrow_table
from hubbub.pipeline.grouping import Groups

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
    hour=TEXT,
)


def compute(sources: Mapping[str, pa.Table], _: str) -> pa.Table:
    """`crosses`: it spans several channels or conversations."""
    messages = sources["thread_messages"]
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
    answers, mean = _answers(groups, messages)
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
        "hour": messages["hour"].take(pa.array(start_of)),
    }
    for name, column in more.items():
        threads = threads.append_column(name, column)
    return threads


def updated(own: pa.Table, names: pa.Array, messages: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Those that stay, and those that these messages make, in place of threads of these names."""
    kept = own.filter(pc.invert(pc.is_in(own["thread"], names)))
    return kept, compute({"thread_messages": messages}, "").select(SCHEMA.names)


def _answers(groups: Groups, messages: pa.Table) -> tuple[pa.Array, pa.Array]:
    """How many there are in each thread, and the mean time that they took. What answers a message
    that the journal does not have is an answer, too."""
    took, count = messages["response_time"], len(groups)
    is_answer = pc.or_(pc.is_valid(messages["refers_to"]), pc.is_valid(took)).to_numpy()
    answers = np.bincount(groups.ids, is_answer, count)
    times = np.bincount(groups.ids, pc.fill_null(took, 0).to_numpy(), count)
    measured = np.bincount(groups.ids, pc.is_valid(took).to_numpy(), count)
    with np.errstate(invalid="ignore"):
        return pa.array(answers.astype(np.int64)), pa.array(times / measured, from_pandas=True)


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
            "refers_to",
            "response_time",
            "hour",
        ),
    },
    compute,
    key=("hub", "thread"),
    kept_with="thread_messages",
)
