"""Random histories of hubs in which much hangs together: what one run finds, another one knew."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec

from harness.segments import (
    HOUR,
    NOON,
    Pipeline,
    published,
    replace_segments,
    session_closed,
    session_opened,
)
from hubbub.domain import journal as kinds
from hubbub.domain.documents.journal import DOCUMENT_CHANGED
from hubbub.domain.journal import JournalEvent

_HOURS = 24
_DAYS_BEFORE = (*(0,) * 6, 20, 45)
"""Most of it happens on one day, some of it in the months before."""
_PEOPLE = ("ann", "bob", "cem", "dan", "eve")
_TALKS = tuple(f"c{number}" for number in range(8))
_HUBS = ("demo", "other")


class RandomHistory:
    """Events of a day come in no order, a part with each round; some come twice, and some
    segments are replaced by others that say it a little differently."""

    def __init__(self, seed: int, events: int) -> None:
        self._chance = random.Random(seed)
        self._events = [self._message(number) for number in range(events)]
        for number in range(events // 4):
            self._events += self._session(number)
            self._events += self._shared_state(number)
            self._events += self._handed_out(number)
        self._written: dict[str, list[JournalEvent]] = {}
        self._replacements = 0

    def rounds(self, pipeline: Pipeline, count: int) -> Iterator[int]:
        """Writes segments; the caller runs the pipeline after each round."""
        # Most of it in order of time, as it is, and some of it early or late.
        self._events.sort(key=lambda event: event.at + self._chance.choice((0, 0, 0, 15)) * HOUR)
        size = -(-len(self._events) // count)
        for number in range(count):
            new = self._events[number * size : (number + 1) * size]
            again = self._chance.sample(self._events[: number * size], k=min(3, number))
            self._write(pipeline, f"n1-{number:04}", [*new, *again, *self._later(again)])
            if number % 3 == 2:
                self._replace(pipeline)
            yield number

    def _message(self, number: int) -> JournalEvent:
        chance = self._chance
        more: dict[str, Any] = {"user": chance.choice(_PEOPLE), "hub": chance.choice(_HUBS)}
        if chance.random() < 0.4:
            more["conversation_id"] = chance.choice(_TALKS)
        if chance.random() < 0.4:
            # Also to itself, to one that comes later, or to one that never comes.
            more["refers_to"] = f"m{chance.randrange(max(number - 20, 0), number + 4)}"
        if chance.random() < 0.3:
            more |= {"producer": chance.choice(("p1", "p2")), "sequence": number // 3}
        if chance.random() < 0.1:
            more["sender"] = chance.choice(_PEOPLE)
        at = self._day() - _HOURS * HOUR + chance.randrange(_HOURS * 4) * (HOUR // 4)
        event = published(number, at, channel=chance.choice(("news", "side")))
        return msgspec.structs.replace(event, **more)

    def _session(self, number: int) -> Iterator[JournalEvent]:
        began = self._day() - self._chance.randrange(1, _HOURS) * HOUR
        user = self._chance.choice(_PEOPLE)
        yield session_opened(f"s{number}", began, user=user)
        if self._chance.random() < 0.8:
            ended = began + self._chance.randrange(1, 20) * HOUR // 2
            yield session_closed(f"s{number}", min(ended, NOON), user=user)

    def _shared_state(self, number: int) -> Iterator[JournalEvent]:
        """A change of a document, a notification that is read at times, and a push."""
        chance, at = self._chance, self._day() - self._chance.randrange(1, _HOURS) * HOUR
        user = chance.choice(_PEOPLE)
        size = {"documentBytes": str(chance.randrange(1000))}
        yield JournalEvent(
            DOCUMENT_CHANGED, at, "demo", "n1", "todo", user=user, serial=number, extra=size
        )
        note: dict[str, Any] = {"message_id": f"n{number}", "published_at": at, "user": user}
        yield JournalEvent(kinds.NOTIFICATION_CREATED, at, "demo", **note)
        if took := chance.randrange(3) * HOUR:
            yield JournalEvent(kinds.NOTIFICATION_READ, at + took, "demo", duration=took, **note)
        outcome = chance.choice(kinds.PUSH_OUTCOMES)
        yield JournalEvent(
            kinds.PUSH_ATTEMPT, at, "demo", technology="fcm", outcome=outcome, duration=900
        )

    def _handed_out(self, number: int) -> Iterator[JournalEvent]:
        """Deliveries to a durable subscription, some repeated, acknowledged or not; and messages
        that a slow session missed."""
        chance, at = self._chance, self._day() - self._chance.randrange(1, _HOURS) * HOUR
        first = 3 * number + chance.choice((0, 0, 1, -2))
        name = chance.choice(("a", "b"))
        whose: dict[str, Any] = {"channel": "news", "subscription": name, "epoch": "e"}
        span: dict[str, Any] = {**whose, "first_serial": first, "serial": first + 2, "count": 3}
        delivery = chance.choice((1, 1, 1, 2))
        yield JournalEvent(kinds.RECEIVED, at, "demo", delivery=delivery, **span)
        end = chance.choice((kinds.ACKNOWLEDGED, kinds.ACKNOWLEDGED, kinds.EXPIRED, None))
        if end:
            yield JournalEvent(end, at + HOUR, "demo", **span)
        yield JournalEvent(kinds.DROPPED, at, "demo", channel="news", session="s1", count=number)
        outcome, to = chance.choice(("ok", "failed")), chance.choice(_PEOPLE)
        tried: dict[str, Any] = {"channel": "news", "message_id": f"m{number}", "peer": to}
        yield JournalEvent(kinds.ADAPTER_ATTEMPT, at, "demo", outcome=outcome, attempt=1, **tried)
        told: dict[str, Any] = {"message_id": f"m{number}", "receiver": to, "policy": "PREFERRED"}
        verdict = "met" if outcome == "ok" else outcome
        yield JournalEvent(kinds.POLICY_VERDICT, at, "demo", outcome=verdict, **told)

    def _day(self) -> int:
        """The noon before which it happens."""
        return NOON - self._chance.choice(_DAYS_BEFORE) * _HOURS * HOUR

    def _write(self, pipeline: Pipeline, name: str, events: list[JournalEvent]) -> None:
        self._written[name] = events
        pipeline.write(name, *events)

    def _later(self, events: list[JournalEvent]) -> list[JournalEvent]:
        """A message as it appears when it was journalled twice, in two hours."""
        return [
            msgspec.structs.replace(event, at=event.at + 3 * HOUR)
            for event in events[:1]
            if event.message_id
        ]

    def _replace(self, pipeline: Pipeline) -> None:
        """Imitates an erasure, but worse: some messages are deleted, and some get another
        publisher."""
        name = self._chance.choice(sorted(self._written))
        events = [self._otherwise(event) for event in self._written.pop(name)]
        self._replacements += 1
        by = f"{name}-{self._replacements}"
        self._write(pipeline, by, [event for event in events if event is not None])
        replace_segments(pipeline.journal, self._replacements, [name], [by])

    def _otherwise(self, event: JournalEvent) -> JournalEvent | None:
        chance = self._chance.random()
        if chance < 0.1:
            return None
        if chance < 0.2:
            return msgspec.structs.replace(event, user="erased")
        if chance < 0.25:
            return msgspec.structs.replace(event, conversation_id=None, refers_to=None)
        return event
