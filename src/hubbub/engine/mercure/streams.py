"""The streams of Mercure subscribers: their bounds, and the list of active subscriptions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from hubbub.domain.asking import NodeRequest
from hubbub.domain.errors import QuotaExceeded
from hubbub.domain.mercure.callers import MercureCaller
from hubbub.domain.mercure.selectors import Selectors

_USERS_SHARE = 4
"""A user may hold this part of a hub's selector sets."""


class Stream(msgspec.Struct, frozen=True, eq=False):
    """An open stream. `id` is that of its session."""

    id: str
    caller: MercureCaller
    wanted: Selectors
    holder: str
    """The key of its quota: the user id, or the network of an anonymous client."""
    subscriber: str
    """What others see of the session: its id would say which session an operator can end."""

    @property
    def key(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return tuple(self.wanted.key), tuple(self.caller.subscribe.key)

    @property
    def info(self) -> StreamInfo:
        return StreamInfo(self.subscriber, self.wanted.texts, self.caller.payload)


class StreamInfo(msgspec.Struct, frozen=True):
    """A stream as other nodes and subscribers see it."""

    subscriber: str
    selectors: tuple[str, ...]
    payload: Any = None


class ListStreams(NodeRequest[list[StreamInfo]], frozen=True, tag="mercure-streams"):
    """Requests the streams of a hub on a node, at most `limit`."""

    hub: str
    limit: int


class OpenStreams:
    """The streams of all hubs on a node."""

    def __init__(self, most_sets: int) -> None:
        self._most_sets = most_sets
        self._of_hub: dict[str, dict[str, Stream]] = {}
        self._told: set[str] = set()
        """The ids of streams whose beginning was told."""
        self._sets: dict[str, Counter[tuple[object, object]]] = {}
        """How many streams share each selector set, by hub."""
        self._held: dict[str, Counter[str]] = {}
        """How many sets each user holds, by hub; a shared set counts for each of its users."""

    def add(self, hub: str, stream: Stream) -> None:
        """Raises `QuotaExceeded` if the hub or the user has too many different selector sets on
        this node: each update is compared with all of them."""
        sets, held = self._sets.get(hub, Counter()), self._held.get(hub, Counter())
        most = self._most_sets
        if stream.key not in sets and len(sets) >= most:
            raise QuotaExceeded(
                f"hub {hub!r} has {most} different sets of topic selectors on this node; use the "
                "same selectors in several streams, or URI templates"
            )
        if held[stream.holder] >= max(1, most // _USERS_SHARE):
            raise QuotaExceeded(
                f"this user has {held[stream.holder]} streams in hub {hub!r} on this node, a "
                "quarter of what the hub may have; close some of them"
            )
        self._of_hub.setdefault(hub, {})[stream.id] = stream
        self._sets.setdefault(hub, sets)[stream.key] += 1
        self._held.setdefault(hub, held)[stream.holder] += 1

    def mark_told(self, hub: str, stream_id: str) -> Stream | None:
        """None if the stream has ended."""
        stream = self._of_hub.get(hub, {}).get(stream_id)
        if stream is not None:
            self._told.add(stream_id)
        return stream

    def remove(self, hub: str, stream_id: str) -> tuple[Stream | None, bool]:
        """The stream, and whether its beginning was told."""
        streams = self._of_hub.get(hub, {})
        stream, told = streams.pop(stream_id, None), stream_id in self._told
        self._told.discard(stream_id)
        if stream is not None:
            _uncount(self._sets[hub], stream.key)
            _uncount(self._held[hub], stream.holder)
            if not streams:
                del self._of_hub[hub], self._sets[hub], self._held[hub]
        return stream, told

    def of_hub(self, hub: str) -> Iterator[StreamInfo]:
        for stream in self._of_hub.get(hub, {}).values():
            yield stream.info


def _uncount(counts: Counter[Any], key: object) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
