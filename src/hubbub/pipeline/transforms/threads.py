"""Threads: which linked messages belong together, what each answers, and its place.

A message answers the one that it refers to. If it refers to none, it answers the message before it
in its conversation, if another peer wrote that. Messages are of one thread if they share a
conversation, or if one answers the other by reference, or by a chain of such steps.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.catalogue import TABLES
from hubbub.pipeline.grouping import Integers, named, whole
from hubbub.pipeline.transforms.components import roots
from hubbub.pipeline.views.columns import differ

BY_REFERENCE: Final = "reference"
IN_CONVERSATION: Final = "conversation"
_ORDER: Final = ("at", "serial", "message_id")
"""Of messages of one moment the order is that of their serials, then of their ids."""
_SHAPE: Final = TABLES["linked_messages"].schema
_NONE: Final = -1


def threaded(links: pa.Table) -> pa.Table:
    """Rows of `linked_messages`. `links` has the columns of `catalogue.SCRATCH["_links"]` and holds
    whole threads: messages that are linked, and those that they refer to."""
    graph = _Graph(links)
    kept = graph.counting()
    links, thread = links.filter(pa.array(kept)), graph.threads()[kept]
    order = _sorted(links, thread)
    links, thread = links.take(order), thread[order.to_numpy()]
    starts = np.flatnonzero(np.diff(thread, prepend=_NONE))
    first = np.repeat(starts, np.diff(starts, append=len(links)))
    columns = {
        "thread": links["message_id"].take(pa.array(first)),
        "thread_began": links["at"].take(pa.array(first)),
        "position": pa.array(np.arange(len(links)) - first + 1),
        **_answering(links),
    }
    every = {**{name: links[name] for name in links.column_names}, **columns}
    return pa.table({name: every[name] for name in _SHAPE.names}).cast(_SHAPE)


class _Graph:
    """Nodes are messages and conversations, by number; an edge is a link between two of them."""

    def __init__(self, links: pa.Table) -> None:
        self._links = links
        self.message, self.referred, self._messages = _numbered(links)
        talk = whole(named(links["hub"], links["conversation_id"])).dictionary_encode()
        self._talk = _numbers(talk.indices)
        self._nodes = self._messages + len(talk.dictionary)

    def threads(self) -> Integers:
        """The thread of each link, by a number."""
        talks, refers = self._talk != _NONE, self.referred != _NONE
        here = np.concatenate([self.message[talks], self.message[refers]])
        there = np.concatenate([self._talk[talks] + self._messages, self.referred[refers]])
        found: Integers = roots(here, there, self._nodes)[self.message]
        return found

    def counting(self) -> Any:
        """Whether each counts: a message that is not linked itself does if another one refers to
        it, and of its copies the last one."""
        linked = (self._talk != _NONE) | (self.referred != _NONE)
        last = _last(self.message, self._links, self._messages)
        asked = np.zeros(self._messages, bool)
        asked[self.referred[self.referred != _NONE]] = True
        asked[self.message[linked]] = False
        return linked | (asked[self.message] & (last[self.message] == np.arange(len(linked))))


def _answering(links: pa.Table) -> dict[str, Any]:
    """The question that each message answers, and how long that took."""
    message, referred, messages = _numbered(links)
    refers = referred != _NONE
    question = np.where(refers, _last(message, links, messages)[referred], _NONE)
    before = _before(links)
    asked = _taken(links["peer"], before)
    follows = ~refers & (before != _NONE) & _true(differ(asked, links["peer"]))
    question = np.where(follows, before, question)
    said = pa.array(refers), pa.array(follows)
    how = pc.case_when(pa.StructArray.from_arrays(said, ["a", "b"]), BY_REFERENCE, IN_CONVERSATION)
    asked_at = _taken(links["at"], question)
    took = pc.subtract(links["at"].cast(pa.int64()), asked_at.cast(pa.int64()))
    return {
        "how": how,
        "question_id": pc.if_else(
            said[0], links["refers_to"], _taken(links["message_id"], question)
        ),
        "asker": _taken(links["peer"], question),
        "question_channel": _taken(links["channel"], question),
        "question_conversation_id": _taken(links["conversation_id"], question),
        "asked_at": asked_at,
        "response_time": pc.if_else(pc.is_valid(took), pc.max_element_wise(took, 0), took),
    }


def _before(links: pa.Table) -> Integers:
    """The place of the message before each one in its conversation."""
    talk = whole(named(links["hub"], links["conversation_id"])).dictionary_encode()
    number = _numbers(talk.indices)
    order = _sorted(links, number).to_numpy()
    ordered = number[order]
    goes_on = (ordered[1:] == ordered[:-1]) & (ordered[1:] != _NONE)
    found = np.full(len(links), _NONE)
    found[order[1:][goes_on]] = order[:-1][goes_on]
    return found


def _numbered(links: pa.Table) -> tuple[Integers, Integers, int]:
    """Each message and the one that it refers to by number, and how many numbers there are."""
    ids = [whole(named(links["hub"], links[name])) for name in ("message_id", "refers_to")]
    codes = pa.concat_arrays(ids).dictionary_encode()
    numbers = _numbers(codes.indices)
    return numbers[: len(links)], numbers[len(links) :], len(codes.dictionary)


def _last(message: Integers, links: pa.Table, messages: int) -> Integers:
    """The place of the last copy of each message, none where there is no copy."""
    order = pc.sort_indices(whole(links["at"])).to_numpy()
    found = np.full(messages, _NONE)
    found[message[order]] = order
    return found


def _sorted(links: pa.Table, group: Integers) -> pa.Array:
    keyed = links.select(list(_ORDER)).append_column("_group", pa.array(group))
    return pc.sort_indices(keyed, [(name, "ascending", "at_start") for name in ("_group", *_ORDER)])


def _taken(column: pa.ChunkedArray, places: Integers) -> pa.Array:
    return whole(column.take(pa.array(places, mask=places == _NONE)))


def _numbers(codes: pa.Array) -> Integers:
    found: Integers = codes.fill_null(_NONE).to_numpy().astype(np.int64)
    return found


def _true(flags: Any) -> Any:
    return whole(flags).to_numpy(zero_copy_only=False)
