"""Threads: which linked messages belong together, to which message each replies, and its position.

A message replies to the message that it refers to. Without a reference, it replies to the preceding
message of its conversation, if another peer wrote that. Messages are in one thread if they share a
conversation, if one refers to the other, or if a chain of such links connects them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.catalogue import TABLES
from hubbub.pipeline.columns import differ
from hubbub.pipeline.grouping import Integers, named, whole
from hubbub.pipeline.transforms.components import roots

BY_REFERENCE: Final = "reference"
IN_CONVERSATION: Final = "conversation"
_ORDER: Final = ("at", "serial", "message_id")
"""Messages with the same time are ordered by serial, then by id."""
_SHAPE: Final = TABLES["linked_messages"].schema
_NONE: Final = -1


def threaded(links: pa.Table) -> pa.Table:
    """Rows of `linked_messages`. `links` has the columns of `catalogue.SCRATCH["_links"]` and
    contains whole threads: linked messages and the messages that they refer to."""
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
    """Nodes are numbered messages and conversations; an edge links two of them."""

    def __init__(self, links: pa.Table) -> None:
        self._links = links
        self.message, self.referred, self._messages = _numbered(links)
        talk = whole(named(links["hub"], links["conversation_id"])).dictionary_encode()
        self._talk = _numbers(talk.indices)
        self._nodes = self._messages + len(talk.dictionary)

    def threads(self) -> Integers:
        """The number of each link's thread."""
        talks, refers = self._talk != _NONE, self.referred != _NONE
        here = np.concatenate([self.message[talks], self.message[refers]])
        there = np.concatenate([self._talk[talks] + self._messages, self.referred[refers]])
        found: Integers = roots(here, there, self._nodes)[self.message]
        return found

    def counting(self) -> Any:
        """Marks the rows that count: an unlinked message counts if another one refers to it, and
        only the last copy of a message counts."""
        linked = (self._talk != _NONE) | (self.referred != _NONE)
        last = _last(self.message, self._links, self._messages)
        asked = np.zeros(self._messages, bool)
        asked[self.referred[self.referred != _NONE]] = True
        asked[self.message[linked]] = False
        return linked | (asked[self.message] & (last[self.message] == np.arange(len(linked))))


def _answering(links: pa.Table) -> dict[str, Any]:
    """The message to which each message replies, and the time in between."""
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
    """The position of the preceding message in the conversation."""
    talk = whole(named(links["hub"], links["conversation_id"])).dictionary_encode()
    number = _numbers(talk.indices)
    order = _sorted(links, number).to_numpy()
    ordered = number[order]
    goes_on = (ordered[1:] == ordered[:-1]) & (ordered[1:] != _NONE)
    found = np.full(len(links), _NONE)
    found[order[1:][goes_on]] = order[:-1][goes_on]
    return found


def _numbered(links: pa.Table) -> tuple[Integers, Integers, int]:
    """Numbers the ids of all messages: an array for the messages, one for those that they refer to,
    and how many different ids there are."""
    ids = [whole(named(links["hub"], links[name])) for name in ("message_id", "refers_to")]
    codes = pa.concat_arrays(ids).dictionary_encode()
    numbers = _numbers(codes.indices)
    return numbers[: len(links)], numbers[len(links) :], len(codes.dictionary)


def _last(message: Integers, links: pa.Table, messages: int) -> Integers:
    """The position of the last copy of each message, -1 if there is none."""
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
