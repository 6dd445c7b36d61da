"""What every adapter of `hubbub.ports.bus.Bus` must do.

A module that runs it derives a class from `BusContract` and gives it a `place` fixture: the bus of
one node, a sink that notes down what that node is told, and the owner of the channel `news` in the
hub `acme`, wherever that is. Each test has channels of its own.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

import msgspec
import pytest

from harness.engine import ANSWER_SECONDS, EngineNode, RecordingSink
from harness.running_hub import OPEN
from hubbub.domain.asking import FeedEvent
from hubbub.domain.errors import HubNotFound, QuotaExceeded
from hubbub.domain.history import HistoryQuery
from hubbub.domain.messages import JSON, Message
from hubbub.domain.notices import Member
from hubbub.domain.rules import HubConfiguration, HubSettings, Quotas, Rules
from hubbub.ports.bus import (
    Attach,
    Bus,
    Detach,
    HubChanged,
    Join,
    Leave,
    MembersJoined,
    MembersLeft,
    MembersQuery,
    MessagePublished,
    OccupancyChanged,
    OccupancyQuery,
    Occupy,
    PublishOutcome,
)

E = TypeVar("E", bound=FeedEvent)

HUB = HubConfiguration(
    hub="acme",
    settings=HubSettings(allow_anonymous=True, default_rules="default"),
    rules={
        "default": msgspec.structs.replace(OPEN, presence=True, occupancy=True),
        "kept": Rules(public=True, store=True, retain=True),
    },
    namespaces={"kept": "kept"},
)
SMALL = HubConfiguration(hub="small", settings=HubSettings(quotas=Quotas(channels=1)))


class Place(msgspec.Struct):
    """The bus under test, and both of its ends."""

    bus: Bus
    sink: RecordingSink
    home: EngineNode
    """The node that owns the channels that the suite uses."""
    channel: str
    kept: str
    """A channel that stores and retains."""


def message(
    number: int, channel: str, hub: str = "acme", store: bool = False, retain: bool = False
) -> Message:
    body, time = b"%d" % number, number * 1000
    return Message(f"m{number}", hub, channel, "e", body, JSON, time, store=store, retain=retain)


async def publish(bus: Bus, *messages: Message) -> list[PublishOutcome]:
    """Publish them all at once; answers what became of each, in the order of the replies."""
    outcomes: list[PublishOutcome] = []
    done = asyncio.Event()

    def reply(outcome: PublishOutcome) -> None:
        outcomes.append(outcome)
        if len(outcomes) >= len(messages):
            done.set()

    for each in messages:
        bus.publish(each, reply)
    await asyncio.wait_for(done.wait(), ANSWER_SECONDS)
    return outcomes


@pytest.mark.asyncio(loop_scope="module")
class BusContract:
    async def test_publishes_are_taken_up_once_and_in_the_order_they_were_made(
        self, place: Place
    ) -> None:
        outcomes = await publish(place.bus, *(message(n, place.channel) for n in range(1, 101)))
        assert all(outcome.error is None for outcome in outcomes)
        assert sorted(outcome.serial for outcome in outcomes) == list(range(1, 101))
        page = await place.bus.ask(HistoryQuery("acme", place.channel, 500, after=0))
        assert [each.id for each in page.messages] == [f"m{n}" for n in range(1, 101)]
        assert page.recovered

    async def test_a_publish_without_a_reply_takes_effect_too(self, place: Place) -> None:
        place.bus.publish(message(1, place.channel), None)
        (outcome,) = await publish(place.bus, message(2, place.channel))
        assert outcome.serial == 2

    async def test_a_stored_publish_is_answered_when_it_is_on_disk(self, place: Place) -> None:
        outcomes = await publish(
            place.bus, *(message(n, place.kept, store=True) for n in range(1, 11))
        )
        assert sorted(outcome.serial for outcome in outcomes) == list(range(1, 11))
        page = await place.bus.ask(HistoryQuery("acme", place.kept, 3, before=9))
        assert [each.serial for each in page.messages] == [6, 7, 8]
        assert page.more

    async def test_an_attachment_says_where_the_channel_stands(self, place: Place) -> None:
        await publish(place.bus, message(1, place.kept, store=True, retain=True))
        attachment = await place.bus.ask(Attach("acme", place.kept))
        assert attachment.head == 1
        assert attachment.epoch
        assert attachment.retained is not None
        assert attachment.retained.id == "m1"
        assert (await place.bus.ask(Attach("acme", place.kept))) == attachment

    async def test_an_attached_node_gets_the_events_of_the_channel(self, place: Place) -> None:
        attachment = await place.bus.ask(Attach("acme", place.channel))
        for number in range(1, 100):  # events may be lost, but not for ever
            await publish(place.bus, message(number, place.channel))
            if self._of(place, MessagePublished):
                break
        published = self._of(place, MessagePublished)[0]
        assert published.message.id == f"m{published.message.serial}"
        assert published.epoch == attachment.epoch

    async def test_a_detached_node_gets_no_more_messages(self, place: Place) -> None:
        await place.bus.ask(Attach("acme", place.channel))
        place.bus.tell(Detach("acme", place.channel))
        await publish(place.bus, message(1, place.channel))
        await place.bus.ask(HistoryQuery("acme", place.channel, 1))
        assert self._of(place, MessagePublished) == []

    async def test_a_join_that_is_said_twice_is_told_once(self, place: Place) -> None:
        await place.bus.ask(Attach("acme", place.channel))
        member = Member("s1", "ann", {"colour": "red"}, 1000)
        place.bus.tell(Join("acme", place.channel, (member,)))
        place.bus.tell(Join("acme", place.channel, (member,)))
        assert await place.bus.ask(MembersQuery("acme", place.channel)) == (member,)
        place.bus.tell(Leave("acme", place.channel, ("s1",)))
        assert await place.bus.ask(MembersQuery("acme", place.channel)) == ()
        place.bus.tell(Join("acme", place.channel, (member,)))
        place.bus.tell(Join("acme", place.channel, (Member("s2", None, {}, 2000),)))
        await self._until_told(
            place, lambda: {m.session_id for e in self._joins(place) for m in e.members} >= {"s2"}
        )
        joined = [m.session_id for each in self._joins(place) for m in each.members]
        left = [m.session_id for each in self._of(place, MembersLeft) for m in each.members]
        assert joined.count("s1") == left.count("s1") + 1
        assert joined.count("s2") == 1

    async def test_the_count_of_subscribers_is_known_and_told(self, place: Place) -> None:
        await place.bus.ask(Attach("acme", place.channel))
        for count in (1, 2, 3):
            place.bus.tell(Occupy("acme", place.channel, count))
        assert await place.bus.ask(OccupancyQuery("acme", place.channel)) == 3
        await self._until_told(place, lambda: self._of(place, OccupancyChanged))
        assert self._of(place, OccupancyChanged)[-1].count == 3

    async def test_errors_of_the_owner_arrive_as_they_are(self, place: Place) -> None:
        with pytest.raises(HubNotFound, match="nowhere"):
            await place.bus.ask(Attach("nowhere", place.channel))
        await publish(place.bus, message(1, place.channel, hub="small"))
        (outcome,) = await publish(place.bus, message(2, place.kept, hub="small"))
        assert isinstance(outcome.error, QuotaExceeded)
        assert "quota" in outcome.error.message

    async def test_a_changed_hub_is_announced_to_nodes_and_owners(self, place: Place) -> None:
        await place.bus.ask(Attach("acme", place.channel))
        default = HUB.rules["default"]
        await place.home.directory.put("acme", "rules", "default", Rules(live_history=True))
        await place.bus.broadcast(HubChanged("acme"))
        assert "acme" in place.sink.changed_hubs
        place.bus.tell(Occupy("acme", place.channel, 5))
        assert await place.bus.ask(OccupancyQuery("acme", place.channel)) == 0
        await place.home.directory.put("acme", "rules", "default", default)

    # -- what the sink was told -----------------------------------------------------------------

    @staticmethod
    def _of(place: Place, kind: type[E]) -> list[E]:
        """Events of this test's own channels: one of another test may still be under way."""
        mine = (place.channel, place.kept)
        return [
            event
            for _, channel, event in place.sink.events
            if channel in mine and isinstance(event, kind)
        ]

    def _joins(self, place: Place) -> list[MembersJoined]:
        return self._of(place, MembersJoined)

    @staticmethod
    async def _until_told(place: Place, condition: object) -> None:
        assert callable(condition)
        await place.sink.until(condition)
