"""A feed passes every message on once and in order, whatever the bus does, or says what is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from harness.engine import Alone, publish
from harness.feeds import Following, ScriptedOwner, published
from harness.running_hub import OPEN, open_hub
from hubbub.domain.asking import FeedEvent
from hubbub.domain.notices import (
    ChannelReset,
    Member,
    Occupancy,
    Subscribed,
)
from hubbub.domain.requests import Subscribe, SubscribeItem
from hubbub.domain.rules import Rules
from hubbub.engine.sessions.attendance import with_changes
from hubbub.ports.bus import (
    HeadAnnounced,
    MembersJoined,
    MembersLeft,
    MembersPresent,
    OccupancyChanged,
)

pytestmark = [pytest.mark.spec("LIVE-10"), pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Alone]:
    async with Alone(tmp_path_factory.mktemp("feed")) as alone:
        yield alone


@pytest_asyncio.fixture(loop_scope="module")
async def following(shared: Alone) -> AsyncIterator[Following]:
    """A node whose sessions are all new; what its bus answers is the test's to say."""
    owner = ScriptedOwner(shared)
    subscriber = await shared.node.subscribe("news")
    yield Following(shared, owner, subscriber)
    assert subscriber.session is not None
    shared.node.node.close(subscriber.session)


async def test_messages_in_order_pass_through(following: Following) -> None:
    for serial in (1, 2, 3):
        following.feed.receive(published(serial))
    assert await following.settle(3) == [1, 2, 3]
    assert following.owner.asked == []


async def test_a_doubled_message_is_passed_on_once(following: Following) -> None:
    for serial in (1, 1, 2, 1, 2, 3):
        following.feed.receive(published(serial))
    assert await following.settle(3) == [1, 2, 3]


async def test_a_gap_is_filled_from_history_before_anything_later_is_shown(
    following: Following,
) -> None:
    following.owner.head = 4
    following.feed.receive(published(1))
    following.feed.receive(published(4))
    assert await following.settle(4) == [1, 2, 3, 4]


async def test_messages_that_come_during_a_catch_up_are_not_lost_or_doubled(
    following: Following,
) -> None:
    following.owner.gate = asyncio.Event()
    following.owner.head = 5
    following.feed.receive(published(3))
    following.feed.receive(published(4))
    following.feed.receive(published(5))
    following.owner.gate.set()
    assert await following.settle(5) == [1, 2, 3, 4, 5]


async def test_an_announced_head_brings_what_was_missed_at_the_end(following: Following) -> None:
    following.owner.head = 2
    following.feed.receive(HeadAnnounced("one", 2))
    assert await following.settle(2) == [1, 2]


async def test_a_gap_that_cannot_be_filled_is_announced(following: Following) -> None:
    following.owner.head = 7
    following.owner.oldest = 6
    following.feed.receive(published(7))
    await following.settle("one@7")
    following.feed.receive(published(8))
    assert await following.settle(8) == ["one@7", 8]


async def test_a_catch_up_that_failed_is_tried_again_with_the_next_head(
    following: Following,
) -> None:
    following.owner.head = 2
    following.owner.away = True
    following.feed.receive(published(2))
    await following.owner.was_asked()
    following.owner.away = False
    await asyncio.sleep(0)
    following.feed.receive(HeadAnnounced("one", 2))
    assert await following.settle(2) == [1, 2]


async def test_a_new_epoch_is_announced_and_its_messages_follow(following: Following) -> None:
    following.feed.receive(published(1))
    following.owner.epoch, following.owner.head = "two", 2
    following.feed.receive(published(1, "two"))
    following.feed.receive(published(2, "two"))
    await following.settle(2)
    following.feed.receive(published(3, "two"))
    assert await following.settle(3) == [1, "two@0", 1, 2, 3]


async def test_a_late_event_of_a_former_epoch_changes_nothing(following: Following) -> None:
    """It used to throw the subscribers back into the former epoch, and out of it again."""
    following.owner.epoch, following.owner.head = "two", 1
    following.feed.receive(HeadAnnounced("two", 1))
    await following.settle("two@1")
    following.feed.receive(published(9, "one"))
    following.feed.receive(HeadAnnounced("one", 9))
    while len(following.owner.asked) < 2:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    following.feed.receive(published(2, "two"))
    following.owner.head = 2
    following.feed.receive(HeadAnnounced("two", 2))
    assert await following.settle(2) == ["two@1", 2]


async def test_an_epoch_that_changes_during_a_catch_up_mixes_no_serials(
    following: Following,
) -> None:
    following.owner.gate = asyncio.Event()
    following.owner.head = 3
    following.feed.receive(published(3))
    await following.owner.was_asked()
    following.feed.receive(published(2, "two"))
    following.owner.epoch, following.owner.head = "two", 2
    following.owner.gate.set()
    assert await following.settle(2) == ["two@1", 2]


@pytest.mark.parametrize("stores", [False, True])
async def test_a_message_that_overtakes_the_answer_about_its_epoch_is_not_lost(
    following: Following, stores: bool
) -> None:
    """The owner was asked about the new epoch while it was empty."""
    owner = following.owner
    owner.stores = stores
    owner.delay = asyncio.Event()
    owner.epoch = "two"
    following.feed.receive(HeadAnnounced("two", 0))
    await owner.was_asked()
    owner.head = 1
    following.feed.receive(published(1, "two"))
    owner.delay.set()
    assert await following.settle(1) == ["two@0", 1]


async def test_a_message_that_overtakes_the_answer_to_a_false_alarm_is_not_lost(
    following: Following,
) -> None:
    owner = following.owner
    owner.delay = asyncio.Event()
    following.feed.receive(HeadAnnounced("former", 9))
    await owner.was_asked()
    owner.head = 1
    following.feed.receive(published(1))
    owner.delay.set()
    assert await following.settle(1) == [1]


async def test_a_new_epoch_that_is_heard_of_after_a_former_one_is_not_lost(
    following: Following,
) -> None:
    owner = following.owner
    owner.delay = asyncio.Event()
    owner.epoch = "two"
    following.feed.receive(HeadAnnounced("former", 9))
    await owner.was_asked()
    owner.head = 1
    following.feed.receive(published(1, "two"))
    owner.delay.set()
    assert await following.settle(1) == ["two@0", 1]


async def test_an_unchanged_count_is_not_told_again(following: Following) -> None:
    for count in (3, 3, 4):
        following.feed.receive(OccupancyChanged(count))
    await following.subscriber.until(lambda: len(following.subscriber.all(Occupancy)) == 2)
    assert [each.count for each in following.subscriber.all(Occupancy)] == [3, 4]


@pytest.mark.parametrize(
    "rules", [OPEN, Rules(public=True, client_publish=True, allow_anonymous=True)]
)
async def test_a_message_that_comes_while_a_node_attaches_does_not_fall_in_between(
    tmp_path: Path, rules: Rules
) -> None:
    """It used to fall between the owner's answer and the feed's beginning."""
    async with Alone(tmp_path, hubs=[open_hub(rules=rules)]) as alone:
        speaker = alone.node.connect()
        publish(speaker, "news", b"0")
        for turns in range(8):
            listener = alone.node.connect()
            listener.say(Subscribe((SubscribeItem("news"),)))
            for _ in range(turns):
                await asyncio.sleep(0)
            publish(speaker, "news", b"%d" % turns)
            confirmed = (await listener.next(Subscribed)).channels[0].serial
            publish(speaker, "news", b"true")
            await listener.until(lambda: listener.deliveries("news"))  # noqa: B023
            first = listener.deliveries("news")[0].serial
            assert first == confirmed + 1
            assert listener.all(ChannelReset) == []
            assert listener.session is not None
            alone.node.node.close(listener.session)


async def test_an_answer_about_presence_is_brought_up_to_date_with_what_overtook_it() -> None:
    ann, bob, eve = (Member(name, name, {}, 1) for name in ("ann", "bob", "eve"))
    events: list[FeedEvent] = [MembersJoined((bob,)), MembersLeft((ann,))]
    assert with_changes((ann, eve), events) == (eve, bob)
    assert with_changes((ann,), [*events, MembersPresent((ann, bob))]) == (ann, bob)
    assert with_changes((ann,), []) == (ann,)
