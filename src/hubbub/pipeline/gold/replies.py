"""The provenance graph: who answered what, and how long it took."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.gold.adding import at_places, others, together, who
from hubbub.pipeline.gold.columns import TEXT, TIME, WHOLE, schema
from hubbub.pipeline.grouping import named
from hubbub.pipeline.tables import arrow_table

BY_REFERENCE = "reference"
IN_CONVERSATION = "conversation"

SCHEMA = schema(
    hub=TEXT,
    answer_id=TEXT,
    question_id=TEXT,
    how=TEXT,
    asker=TEXT,
    answerer=TEXT,
    question_channel=TEXT,
    channel=TEXT,
    question_conversation_id=TEXT,
    conversation_id=TEXT,
    asked_at=TIME,
    answered_at=TIME,
    response_time=WHOLE,
)


_ANSWER = {
    "hub": "hub",
    "message_id": "answer_id",
    "peer": "answerer",
    "channel": "channel",
    "conversation_id": "conversation_id",
    "at": "answered_at",
}
_QUESTION = {
    "message_id": "question_id",
    "peer": "asker",
    "channel": "question_channel",
    "conversation_id": "question_conversation_id",
    "at": "asked_at",
}


def compute(sources: Mapping[str, pa.Table], _: str) -> pa.Table:
    """A message answers the one that it refers to. If it refers to none, it answers the message
    before it in its conversation, if that is somebody else's: who goes on answers nothing.

    A question that the journal does not have leaves `asker` and `response_time` empty; an answer
    whose clock is behind the question's counts as given at once."""
    links = sources["links"]
    edges = together(_referring(links, sources["messages"]), _following(links))
    micros = pc.subtract(edges["answered_at"].cast(pa.int64()), edges["asked_at"].cast(pa.int64()))
    zero = pa.scalar(0, pa.int64())
    return edges.append_column("response_time", pc.if_else(pc.less(micros, 0), zero, micros))


def asked(sources: Mapping[str, pa.Table]) -> Callable[[pa.Table], pa.Table]:
    """Of messages, those that any refers to; also of another hub, which is seldom and harmless."""
    wanted = pc.unique(sources["links"]["refers_to"]).drop_null()

    def keep(messages: pa.Table) -> pa.Table:
        return messages.filter(pc.is_in(messages["message_id"], wanted))

    return keep


def _referring(links: pa.Table, messages: pa.Table) -> pa.Table:
    answers = links.filter(pc.is_valid(links["refers_to"]))
    wanted = named(answers["hub"], answers["refers_to"])
    questions = messages.append_column("peer", who(messages))
    names = named(messages["hub"], messages["message_id"])
    found = at_places(questions, pc.index_in(wanted, names.combine_chunks()), _QUESTION)
    found = found.set_column(0, "question_id", answers["refers_to"])
    return _beside(_renamed(answers, _ANSWER), found, BY_REFERENCE)


def _renamed(rows: pa.Table, names: Mapping[str, str]) -> pa.Table:
    return rows.select(list(names)).rename_columns(list(names.values()))


def _following(links: pa.Table) -> pa.Table:
    """What follows somebody else's message in a conversation. Of messages of one moment the order
    is that of their serials, then of their ids, so that it is the same in every run."""
    talk = links.filter(pc.is_valid(links["conversation_id"]))
    by = [
        (name, "ascending", "at_start")
        for name in ("hub", "conversation_id", "at", "serial", "message_id")
    ]
    talk = talk.take(pc.sort_indices(talk, by))
    after, before = talk.slice(1), talk.slice(0, max(len(talk) - 1, 0))
    same = pc.and_(
        pc.equal(after["hub"], before["hub"]),
        pc.equal(after["conversation_id"], before["conversation_id"]),
    )
    answers = pc.and_(pc.is_null(after["refers_to"]), others(after["peer"], before["peer"]))
    which = pa.array(np.flatnonzero(pc.and_(same, answers).to_numpy()))
    return _beside(
        at_places(after, which, _ANSWER), at_places(before, which, _QUESTION), IN_CONVERSATION
    )


def _beside(answers: pa.Table, questions: pa.Table, how: str) -> pa.Table:
    for name in questions.column_names:
        answers = answers.append_column(name, questions[name])
    return answers.append_column("how", pa.repeat(how, len(answers)))


TABLE = arrow_table(
    "replies",
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
        "messages": ("hub", "message_id", "sender", "user", "channel", "conversation_id", "at"),
    },
    compute,
    key=("hub", "answer_id"),
    narrow={"messages": asked},
)
