"""Which message belongs to which thread, and at which place in it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.gold.adding import together
from hubbub.pipeline.gold.columns import TEXT, TIME, WHOLE, schema
from hubbub.pipeline.gold.components import roots
from hubbub.pipeline.gold.replies import BY_REFERENCE
from hubbub.pipeline.grouping import Integers, named
from hubbub.pipeline.tables import arrow_table

SCHEMA = schema(
    hub=TEXT,
    thread=TEXT,
    position=WHOLE,
    message_id=TEXT,
    at=TIME,
    channel=TEXT,
    peer=TEXT,
    conversation_id=TEXT,
    refers_to=TEXT,
)


def compute(sources: Mapping[str, pa.Table], _: str) -> pa.Table:
    """Messages are of one thread if they share a conversation, or if one answers the other, or by
    a chain of such steps. A thread has the id of its first message."""
    replies = sources["replies"]
    replies = replies.filter(pc.equal(replies["how"], BY_REFERENCE))
    messages = _messages(sources["links"], replies)
    messages = messages.append_column("_thread", pa.array(_threads(messages, replies)))
    by = [(name, "ascending", "at_start") for name in ("_thread", "at", "serial", "message_id")]
    ordered = messages.take(pc.sort_indices(messages, by))
    thread = ordered["_thread"].to_numpy()
    place = np.arange(len(thread))
    starts = np.concatenate(([True], thread[1:] != thread[:-1])) if len(thread) else place == 0
    first = np.maximum.accumulate(np.where(starts, place, 0)) if len(thread) else place
    return ordered.append_column("position", pa.array(place - first + 1)).append_column(
        "thread", ordered["message_id"].take(pa.array(first))
    )


def _threads(messages: pa.Table, replies: pa.Table) -> Integers:
    """A number for each message, the same for those of one thread."""
    nodes = [
        _nodes(messages["hub"], messages["conversation_id"], messages["message_id"]),
        _nodes(replies["hub"], replies["conversation_id"], replies["answer_id"]),
        _nodes(replies["hub"], replies["question_conversation_id"], replies["question_id"]),
    ]
    every = pa.chunked_array([chunk for each in nodes for chunk in each.chunks], pa.string())
    codes = every.combine_chunks().dictionary_encode()
    numbers = codes.indices.to_numpy().astype(np.int64)
    own, edges = numbers[: len(messages)], numbers[len(messages) :]
    half = len(replies)
    found: Integers = roots(edges[:half], edges[half:], len(codes.dictionary))[own]
    return found


def _nodes(hub: pa.Array, conversation: pa.Array, message: pa.Array) -> pa.ChunkedArray:
    """A conversation is one node, however many messages it has: what remains of the graph is
    small. A message without a conversation is a node of its own."""
    talk = pc.binary_join_element_wise("c", conversation, "")
    own = pc.binary_join_element_wise("m", message, "")
    return named(hub, pc.coalesce(talk, own))


def _messages(links: pa.Table, replies: pa.Table) -> pa.Table:
    """The linked ones, and those that were answered without being linked themselves. One that the
    journal does not have is named by those that answer it, but has no row."""
    plain = replies.filter(
        pc.and_(pc.is_valid(replies["asked_at"]), pc.is_null(replies["question_conversation_id"]))
    )
    names = named(plain["hub"], plain["question_id"])
    linked = pc.is_in(names, named(links["hub"], links["message_id"]).combine_chunks())
    codes = names.combine_chunks().dictionary_encode().indices.to_numpy()
    _, first = np.unique(codes, return_index=True)
    wanted = first[~linked.to_numpy()[first]]
    plain = plain.take(pa.array(wanted))
    unlinked = pa.table(
        {
            "hub": plain["hub"],
            "message_id": plain["question_id"],
            "at": plain["asked_at"],
            "channel": plain["question_channel"],
            "peer": plain["asker"],
        }
    )
    return together(links, unlinked)


TABLE = arrow_table(
    "thread_messages",
    SCHEMA,
    {
        "links": (
            "hub",
            "message_id",
            "at",
            "serial",
            "channel",
            "peer",
            "conversation_id",
            "refers_to",
        ),
        "replies": (
            "how",
            "hub",
            "answer_id",
            "conversation_id",
            "question_id",
            "question_conversation_id",
            "question_channel",
            "asker",
            "asked_at",
        ),
    },
    compute,
    key=("hub", "message_id"),
)
