"""Related messages: replies, threads, and response times of peers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline import spreads
from hubbub.pipeline.aggregates import LINK
from hubbub.pipeline.columns import days, differ, hours, ones, schema, with_columns
from hubbub.pipeline.grouping import Groups
from hubbub.pipeline.views.view import Sources, view

_REPLY = schema(
    "text hub answer_id question_id how asker answerer question_channel channel",
    "text question_conversation_id conversation_id",
    "time asked_at answered_at, whole response_time",
)
_ORIGINAL = {"answer_id": "message_id", "answerer": "peer", "answered_at": "at"}
"""Columns of a linked message that have other names in a reply."""
_OF_THREAD = schema(
    "text hub thread, whole position, text message_id, time at",
    "text channel peer conversation_id refers_to, whole response_time serial",
)


@view(schema(LINK, "text hour"), "hour", linked_messages=LINK.names)
def links(sources: Sources) -> pa.Table:
    """The messages that belong to a conversation or reply to another message, without their
    content."""
    rows = sources["linked_messages"]
    linked = pc.or_(pc.is_valid(rows["conversation_id"]), pc.is_valid(rows["refers_to"]))
    rows = rows.filter(linked)
    return with_columns(rows, hour=hours(rows["at"]))


@view(
    schema(_REPLY, "text hour"),
    "hour",
    linked_messages=[_ORIGINAL.get(name, name) for name in _REPLY.names],
)
def replies(sources: Sources) -> pa.Table:
    """The provenance graph: who replied to which message, and after how long."""
    rows = sources["linked_messages"].rename_columns(_REPLY.names)
    rows = rows.filter(pc.is_valid(rows["how"]))
    return with_columns(rows, hour=hours(rows["answered_at"]))


@view(
    schema("text hub peer day, whole answers askers", spreads.fields("response")), "day", replies=""
)
def responses(sources: Sources) -> pa.Table:
    """Response times. Replies to oneself, and to messages that the journal lacks, are excluded."""
    replies = sources["replies"]
    measured = pc.and_(pc.is_valid(replies["response_time"]), pc.is_valid(replies["answerer"]))
    answers = replies.filter(pc.and_(measured, differ(replies["asker"], replies["answerer"])))
    answers = with_columns(answers, peer=answers["answerer"], day=days(answers["answered_at"]))
    rows = spreads.of_each(answers, "response_time", "response")
    groups = Groups(rows, ("hub", "peer", "day"))
    found = spreads.described(spreads.added(rows, groups, "response"), "response")
    askers = pa.array(groups.different(rows["asker"]))
    return with_columns(found, answers=found["response_count"], askers=askers)


@view(schema(_OF_THREAD, "text hour"), linked_messages=(*_OF_THREAD.names, "thread_began"))
def thread_messages(sources: Sources) -> pa.Table:
    """`hour` is the hour of the thread's first message."""
    rows = sources["linked_messages"]
    return with_columns(rows, hour=hours(rows["thread_began"]))


@view(
    schema(
        "text hub thread started_by, time first_at last_at",
        "whole duration messages participants channels conversations",
        "flag crosses, whole answers, real response_mean, text hour",
    ),
    thread_messages="",
)
def threads(sources: Sources) -> pa.Table:
    """`crosses`: the thread spans several channels or conversations."""
    messages = sources["thread_messages"]
    groups = Groups(messages, ("hub", "thread"))
    at = messages["at"]
    threads = groups.added(
        {"first_at": (at, "min"), "last_at": (at, "max"), "messages": (ones(messages), "sum")}
    )
    first, last = (threads[name].cast(pa.int64()) for name in ("first_at", "last_at"))
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
    more = {
        **counts,
        "started_by": messages["peer"].take(pa.array(start_of)),
        "duration": pc.subtract(last, first),
        "crosses": several,
        "answers": answers,
        "response_mean": mean,
        "hour": messages["hour"].take(pa.array(start_of)),
    }
    return with_columns(threads, **more)


def _answers(groups: Groups, messages: pa.Table) -> tuple[pa.Array, pa.Array]:
    """The number of replies in each thread, and their mean response time. A reply to a message that
    the journal lacks is counted."""
    took, count = messages["response_time"], len(groups)
    is_answer = pc.or_(pc.is_valid(messages["refers_to"]), pc.is_valid(took)).to_numpy()
    answers = np.bincount(groups.ids, is_answer, count)
    times = np.bincount(groups.ids, pc.fill_null(took, 0).to_numpy(), count)
    measured = np.bincount(groups.ids, pc.is_valid(took).to_numpy(), count)
    with np.errstate(invalid="ignore"):
        return pa.array(answers.astype(np.int64)), pa.array(times / measured, from_pandas=True)
