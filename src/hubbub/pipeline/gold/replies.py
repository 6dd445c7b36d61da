"""The provenance graph: who answered what, and how long it took."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.gold.adding import at_places, hours_of, merged, others, together, who
from hubbub.pipeline.gold.columns import TEXT, TIME, WHOLE, schema
from hubbub.pipeline.gold_tables import arrow_table
from hubbub.pipeline.grouping import named, whole
from hubbub.pipeline.history import History
from hubbub.pipeline.state import Partition

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
    hour=TEXT,
)


_ANSWER = {
    "hub": "hub",
    "message_id": "answer_id",
    "peer": "answerer",
    "channel": "channel",
    "conversation_id": "conversation_id",
    "at": "answered_at",
    "hour": "hour",
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
    return _measured(together(_referring(links, sources["messages"]), _following(links)))


def update(history: History) -> Mapping[str, Mapping[Partition, pa.Table]]:
    """Makes the hours again whose messages changed, and those in which such messages are answered.
    Of other hours it looks at the conversations and the questions that matter to these."""
    changed = history.changed("messages") | history.changed("links")
    again = changed | _answering(history, changed)
    links = history.rows("links", again)
    older = {hour for hour in history.partitions("links") if hour < max(again)} - again
    rest = history.rows("links", older)
    rest = rest.filter(pc.is_in(rest["conversation_id"], _known(links["conversation_id"])))
    following = _following(pa.concat_tables([rest, links]))
    following = following.filter(pc.is_in(following["hour"], pa.array(sorted(again))))
    answers = links.filter(pc.is_valid(links["refers_to"]))
    edges = _measured(together(_referring(links, _questions(history, answers)), following))
    return {"replies": merged(again, edges)}


def _answering(history: History, changed: Collection[Partition]) -> set[Partition]:
    """Other hours with answers to messages of these: to such that are there, or were."""
    ids = history.rows("messages", changed, ["message_id"])["message_id"]
    elsewhere = history.partitions("links") - set(changed)
    links = history.rows("links", elsewhere, ["refers_to", "hour"])
    referring = links.filter(pc.is_in(links["refers_to"], whole(ids)))
    known = history.own(
        "replies", history.own_partitions("replies") - set(changed), ["asked_at", "hour"]
    )
    known = known.filter(pc.is_valid(known["asked_at"]))
    answering = known.filter(pc.is_in(hours_of(known["asked_at"]), pa.array(sorted(changed))))
    return {
        hour
        for rows in (referring, answering, _continuing(history, elsewhere))
        for hour in pc.unique(rows["hour"]).to_pylist()
    }


def _continuing(history: History, elsewhere: Collection[Partition]) -> pa.Table:
    """Of messages of other hours, those that come after one that is or was in a changed hour, in
    its conversation."""
    here = pa.concat_tables([history.before("links"), history.now("links")])
    here = here.filter(pc.is_valid(here["conversation_id"]))
    hours = _known(here["hour"])
    first = pc.min(hours).as_py() or ""
    others = history.rows("links", [hour for hour in elsewhere if hour > first])
    others = others.filter(pc.is_in(others["conversation_id"], _known(here["conversation_id"])))
    if not len(others):
        return others
    talk = _in_order(pa.concat_tables([here, others]))
    after, before = talk.slice(1), talk.slice(0, len(talk) - 1)
    changed = pc.is_in(talk["hour"], hours).to_numpy()
    follows = pa.array(~changed[1:] & changed[:-1])
    return after.filter(pc.and_(_same_talk(after, before), follows))


def _questions(history: History, answers: pa.Table) -> pa.Table:
    """The messages that these refer to. The newest hours are looked at first, because most
    questions are as new as their answers; once all are found, older ones stay closed."""
    missing = _known(named(answers["hub"], answers["refers_to"]))
    ids = _known(answers["refers_to"])
    found = []
    for hour in sorted(history.partitions("messages"), reverse=True):
        if not len(missing):
            break
        there = history.rows("messages", [hour], ["message_id"])["message_id"]
        if not pc.any(pc.is_in(there, ids)).as_py():
            continue
        messages = history.rows("messages", [hour])
        messages = messages.filter(pc.is_in(messages["message_id"], ids))
        names = named(messages["hub"], messages["message_id"])
        wanted = pc.is_in(names, missing)
        found.append(messages.filter(wanted))
        missing = missing.filter(pc.invert(pc.is_in(missing, whole(names))))
    return pa.concat_tables([history.rows("messages", ()), *found])


def _known(names: pa.ChunkedArray) -> pa.Array:
    return pc.unique(names).drop_null()


def _measured(edges: pa.Table) -> pa.Table:
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
    names = named(messages["hub"], messages["message_id"]).combine_chunks()
    # Of messages of one id the last one, which is the first that is found from the end.
    backwards = pc.index_in(wanted, names[::-1])
    places = pc.subtract(len(names) - 1, backwards)
    found = at_places(questions, places, _QUESTION)
    found = found.set_column(0, "question_id", answers["refers_to"])
    return _beside(_renamed(answers, _ANSWER), found, BY_REFERENCE)


def _renamed(rows: pa.Table, names: Mapping[str, str]) -> pa.Table:
    return rows.select(list(names)).rename_columns(list(names.values()))


def _following(links: pa.Table) -> pa.Table:
    """What follows somebody else's message in a conversation. Of messages of one moment the order
    is that of their serials, then of their ids, so that it is the same in every run."""
    talk = _in_order(links.filter(pc.is_valid(links["conversation_id"])))
    after, before = talk.slice(1), talk.slice(0, max(len(talk) - 1, 0))
    same = _same_talk(after, before)
    answers = pc.and_(pc.is_null(after["refers_to"]), others(after["peer"], before["peer"]))
    which = pa.array(np.flatnonzero(pc.and_(same, answers).to_numpy()))
    return _beside(
        at_places(after, which, _ANSWER), at_places(before, which, _QUESTION), IN_CONVERSATION
    )


def _in_order(talk: pa.Table) -> pa.Table:
    by = [
        (name, "ascending", "at_start")
        for name in ("hub", "conversation_id", "at", "serial", "message_id")
    ]
    return talk.take(pc.sort_indices(talk, by))


def _same_talk(after: pa.Table, before: pa.Table) -> pa.ChunkedArray:
    return pc.and_(
        pc.equal(after["hub"], before["hub"]),
        pc.equal(after["conversation_id"], before["conversation_id"]),
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
            "hour",
        ),
        "messages": ("hub", "message_id", "sender", "user", "channel", "conversation_id", "at"),
    },
    compute,
    key=("hub", "answer_id"),
    narrow={"messages": asked},
    update=update,
)
