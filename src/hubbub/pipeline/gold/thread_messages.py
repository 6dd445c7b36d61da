"""Which message belongs to which thread, and at which place in it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.gold import threads
from hubbub.pipeline.gold.adding import hours_of, merged, together
from hubbub.pipeline.gold.columns import TEXT, TIME, WHOLE, schema
from hubbub.pipeline.gold.components import roots
from hubbub.pipeline.gold.replies import BY_REFERENCE
from hubbub.pipeline.gold_tables import arrow_table
from hubbub.pipeline.grouping import Integers, named, whole
from hubbub.pipeline.history import History
from hubbub.pipeline.state import Partition

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
    response_time=WHOLE,
    serial=WHOLE,
    hour=TEXT,
)
_TELLING = ("thread", "message_id", "conversation_id", "refers_to", "hour")
"""The columns that tell what belongs together."""
_LINKED = ("hub", "message_id", "at", "serial", "channel", "peer", "conversation_id", "refers_to")


def compute(sources: Mapping[str, pa.Table], _: str) -> pa.Table:
    """Messages are of one thread if they share a conversation, or if one answers the other, or by
    a chain of such steps. A thread has the id of its first message, and lies in its hour.
    `response_time` is that of the message as an answer."""
    links, replies = sources["links"], sources["replies"]
    messages = together(links, _unlinked(replies, links))
    return _placed(_answering(messages, replies))


def update(history: History) -> Mapping[str, Mapping[Partition, pa.Table]]:
    """Threads to which nothing comes and of which nothing goes stay as they are. The others are
    put together again from their rows, without a look at the hours in which they went on."""
    gone, fresh = history.differing("links")
    gone_replies, fresh_replies = history.differing("replies")
    links, replies = together(gone, fresh), together(gone_replies, fresh_replies)
    own, inside = _touched(history, links, replies)
    rows = own.filter(inside)
    names = pc.unique(rows["thread"])
    rows = _without(rows.drop_columns(["thread", "position"]), gone, fresh, fresh_replies)
    rows = together(rows, fresh)
    rows = together(rows, _unlinked(fresh_replies, rows))
    now = history.now("replies")
    stale = _values(
        *(_moments(each, "answer_id", "answered_at") for each in (history.before("replies"), now)),
        _moments(fresh, "message_id", "at"),
    )
    rows = _placed(_answering(rows.drop_columns(["hour"]), now, stale))
    opened = set(pc.unique(own["hour"]).to_pylist())
    more = set(pc.unique(rows["hour"]).to_pylist()) - opened
    kept = own.filter(pc.invert(inside)), history.own("thread_messages", more)
    hours = opened | more
    return {
        "thread_messages": merged(hours, *kept, rows),
        "threads": merged(hours, *threads.updated(history.own("threads", hours), names, rows)),
    }


def _touched(
    history: History, links: pa.Table, replies: pa.Table
) -> tuple[pa.Table, pa.ChunkedArray]:
    """All rows of the hours with threads that these have to do with, and which of them are of such
    threads."""
    asked = _referring(replies)
    lost = asked.filter(pc.is_null(asked["asked_at"]))
    told = history.own("thread_messages", None, _TELLING)
    ids = _values(links["message_id"], replies["answer_id"], asked["question_id"])
    touched = pc.or_(
        pc.is_in(told["message_id"], ids),
        pc.is_in(told["conversation_id"], _values(links["conversation_id"])),
    )
    if len(lost):
        # Who answers what the journal does not have is of one thread all the same.
        touched = pc.or_(touched, pc.is_in(told["refers_to"], _values(lost["question_id"])))
    names = pc.unique(told["thread"].filter(touched))
    inside = pc.is_in(told["thread"], names)
    hours = pc.unique(told["hour"].filter(inside))
    opened = pc.is_in(told["hour"], hours)
    told, inside = told.filter(opened), inside.filter(opened)
    others = [name for name in SCHEMA.names if name not in _TELLING]
    own = history.own("thread_messages", hours.to_pylist(), others)
    for name in _TELLING:
        own = own.append_column(name, told[name])
    return own, inside


def _without(rows: pa.Table, gone: pa.Table, fresh: pa.Table, replies: pa.Table) -> pa.Table:
    """Without messages that are gone, and without questions that nobody refers to any more, or
    that are linked themselves now, or that changed: those who answer them say them again."""
    stays = pc.invert(
        pc.is_in(_moments(rows, "message_id", "at"), _moments(gone, "message_id", "at"))
    )
    rows = rows.filter(stays)
    names = _names(rows, "message_id")
    plain = pc.and_(pc.is_null(rows["conversation_id"]), pc.is_null(rows["refers_to"]))
    changed = _values(_names(_referring(replies), "question_id"), _names(fresh, "message_id"))
    wanted = _values(_names(rows, "refers_to"), _names(fresh, "refers_to"))
    over = pc.or_(pc.is_in(names, changed), pc.invert(pc.is_in(names, wanted)))
    return rows.filter(pc.invert(pc.and_(plain, over)))


def _answering(messages: pa.Table, replies: pa.Table, stale: pa.Array | None = None) -> pa.Table:
    """With the time that each took to answer; or only with that of those that may have changed."""
    names = _moments(messages, "message_id", "at")
    places = pc.index_in(names, _moments(replies, "answer_id", "answered_at"))
    took = replies["response_time"].take(places)
    if stale is not None:
        took = pc.if_else(pc.is_in(names, stale), took, messages["response_time"])
        messages = messages.drop_columns(["response_time"])
    return messages.append_column("response_time", took)


def _placed(messages: pa.Table) -> pa.Table:
    """In threads, and in their order."""
    messages = messages.append_column("_thread", pa.array(_threads(messages)))
    by = [(name, "ascending", "at_start") for name in ("_thread", "at", "serial", "message_id")]
    ordered = messages.take(pc.sort_indices(messages, by))
    thread = ordered["_thread"].to_numpy()
    place = np.arange(len(thread))
    starts = np.concatenate(([True], thread[1:] != thread[:-1])) if len(thread) else place == 0
    first = np.maximum.accumulate(np.where(starts, place, 0)) if len(thread) else place
    found = ordered.append_column("position", pa.array(place - first + 1)).append_column(
        "thread", ordered["message_id"].take(pa.array(first))
    )
    hours = hours_of(ordered["at"].take(pa.array(first)))
    return found.append_column("hour", hours).select(SCHEMA.names)


def _threads(messages: pa.Table) -> Integers:
    """A number for each message, the same for those of one thread.

    A conversation is one node, however many messages it has: what remains of the graph is small. A
    message without a conversation is a node of its own, also one that the journal does not have."""
    names = _names(messages, "message_id")
    talk = pc.binary_join_element_wise("c", messages["hub"], messages["conversation_id"], "\0")
    nodes = whole(pc.coalesce(talk, pc.binary_join_element_wise("m", names, "\0")))
    is_answer = pc.is_valid(messages["refers_to"])
    asked = _names(messages, "refers_to").filter(whole(is_answer))
    known = nodes.take(pc.index_in(asked, names))
    answered = pc.coalesce(known, pc.binary_join_element_wise("m", asked, "\0"))
    every = pa.concat_arrays([nodes, whole(answered)])
    codes = every.dictionary_encode()
    numbers = codes.indices.to_numpy().astype(np.int64)
    here, there = numbers[: len(messages)], numbers[len(messages) :]
    answers = here[is_answer.to_numpy()]
    found: Integers = roots(answers, there, len(codes.dictionary))[here]
    return found


def _unlinked(replies: pa.Table, linked: pa.Table) -> pa.Table:
    """Messages that were answered without being linked themselves. One that the journal does not
    have is named by those that answer it, but has no row."""
    asked = _referring(replies)
    plain = asked.filter(
        pc.and_(pc.is_valid(asked["asked_at"]), pc.is_null(asked["question_conversation_id"]))
    )
    names = named(plain["hub"], plain["question_id"])
    there = pc.is_in(names, _names(linked, "message_id"))
    codes = whole(names).dictionary_encode().indices.to_numpy()
    _, first = np.unique(codes, return_index=True)
    plain = plain.take(pa.array(first[~there.to_numpy()[first]]))
    return pa.table(
        {
            "hub": plain["hub"],
            "message_id": plain["question_id"],
            "at": plain["asked_at"],
            "channel": plain["question_channel"],
            "peer": plain["asker"],
        }
    )


def _referring(replies: pa.Table) -> pa.Table:
    return replies.filter(pc.equal(replies["how"], BY_REFERENCE))


def _values(*columns: pa.ChunkedArray | pa.Array) -> pa.Array:
    return pc.unique(pa.concat_arrays([whole(column) for column in columns])).drop_null()


def _names(rows: pa.Table, column: str) -> pa.Array:
    """Of messages, as unique among all hubs."""
    return whole(named(rows["hub"], rows[column]))


def _moments(rows: pa.Table, column: str, time: str) -> pa.Array:
    """The same of messages that were journalled twice, in two hours."""
    at = rows[time].cast(pa.int64()).cast(pa.string())
    return whole(named(rows["hub"], rows[column], at))


TABLE = arrow_table(
    "thread_messages",
    SCHEMA,
    {
        "links": _LINKED,
        "replies": (
            "how",
            "hub",
            "answer_id",
            "answered_at",
            "question_id",
            "question_conversation_id",
            "question_channel",
            "asker",
            "asked_at",
            "response_time",
        ),
    },
    compute,
    key=("hub", "message_id"),
    update=update,
)
