"""Retention at the owner: what goes, what stays, and who is told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from harness.engine import Alone
from harness.running_hub import OPEN
from hubbub.domain.errors import QuotaExceeded
from hubbub.domain.messages import JSON
from hubbub.domain.names import PARTITIONS
from hubbub.domain.permissions import ANONYMOUS
from hubbub.domain.requests import (
    Producer,
    PublishItem,
    TopicAck,
    TopicGet,
    TopicSubscribe,
    TopicUnsubscribe,
)
from hubbub.domain.rules import HubConfiguration, HubSettings, Quotas, Rules
from hubbub.domain.topics import SubscriptionInfo, SubscriptionOptions
from hubbub.engine.channels.stored_bytes import ENVELOPE_BYTES
from hubbub.engine.hub import Hub
from hubbub.engine.retention import Retention
from hubbub.engine.topics.lags import HubLag, LagSurvey
from hubbub.engine.topics.service import Topics

pytestmark = pytest.mark.spec("ONCE-03")


def stored(**limits: object) -> Rules:
    return msgspec.structs.replace(OPEN, store=True, live_history=False, **limits)


RULES = {
    "kept": stored(),
    "few": stored(max_stored_messages=3),
    "young": stored(max_age_seconds=60),
    "small": stored(max_stored_bytes=30),
    "done": stored(reclaim_acknowledged=True),
    "dropping": stored(max_stored_messages=3, drop_unread=True),
    "both": stored(max_stored_messages=3, drop_unread=True, reclaim_acknowledged=True),
}
QUOTA = 20 * (10 + ENVELOPE_BYTES)
HUB = HubConfiguration(
    hub="acme",
    settings=HubSettings(allow_anonymous=True, quotas=Quotas(stored_bytes=QUOTA)),
    rules=RULES,
    namespaces={name: name for name in RULES},
)
BODY = b'"34567890"'  # ten bytes


class Stage:
    """A node, its retention, and short ways to put and get."""

    def __init__(self, alone: Alone) -> None:
        self.alone = alone
        self.owner = alone.node.owner
        self.subscriptions = alone.node.subscriptions
        self.topics = alone.node.node.feature(Topics)
        self.exported: int | None = None
        self.retention = self._retention()

    def _retention(self) -> Retention:
        return Retention(
            self.alone.store,
            self.alone.clock,
            self.owner,
            self.alone.node.directory.get,
            self._exported_up_to,
        )

    async def _exported_up_to(self, hub: str, channel: str) -> int:
        return 2**62 if self.exported is None else self.exported

    @property
    def hub(self) -> Hub:
        return self.alone.node.node.hub("acme")

    async def put(self, topic: str, count: int = 1) -> None:
        for _ in range(count):
            item = PublishItem(topic, "e", BODY, JSON)
            await self.topics.put(self.hub, ANONYMOUS, item)

    async def subscribe(self, topic: str, name: str = "s") -> None:
        await self.topics.subscribe(self.hub, ANONYMOUS, TopicSubscribe(topic, name, start="first"))

    async def ack(self, topic: str, up_to: int, name: str = "s") -> None:
        await self.topics.acknowledge(self.hub, ANONYMOUS, TopicAck(topic, name, (), up_to))

    async def get(self, topic: str, name: str = "s") -> list[int]:
        found = await self.topics.get(self.hub, ANONYMOUS, TopicGet(topic, name, 100))
        return [article.message.serial for article in found.messages]

    async def info(self, topic: str, name: str = "s") -> SubscriptionInfo:
        return await self.topics.info(self.hub, ANONYMOUS, topic, name)

    async def left(self, topic: str) -> list[int]:
        page = await self.alone.store.read_after("acme", topic, 0, 1000)
        return [message.serial for message in page.messages]

    async def run(self, topic: str) -> list[int]:
        """What is left afterwards."""
        await self.retention.run()
        return await self.left(topic)

    def forget(self) -> None:
        """No channel is open any more."""
        self.owner.channels.close_idle(0)
        self.alone.clock.advance(1)
        assert self.owner.channels.count() == 0

    async def lag(self, series: int = 0) -> LagSurvey:
        survey = LagSurvey(self.alone.store, self.owner.terms, self.subscriptions, series)
        await survey.run()
        return survey


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with Alone(tmp_path, hubs=[HUB]) as alone:
        yield Stage(alone)


@pytest.mark.parametrize("is_open", [True, False])
async def test_the_oldest_go_beyond_a_number_also_where_nobody_has_the_channel_open(
    stage: Stage, is_open: bool
) -> None:
    await stage.put("few:a", 5)
    await stage.put("few:b", 2)
    await stage.put("kept:a", 5)
    if not is_open:
        stage.forget()
    assert await stage.run("few:a") == [3, 4, 5]
    assert await stage.left("few:b") == [1, 2]
    assert await stage.left("kept:a") == [1, 2, 3, 4, 5]
    await stage.put("few:a")
    assert await stage.run("few:a") == [4, 5, 6]


async def test_the_oldest_go_beyond_an_age(stage: Stage) -> None:
    await stage.put("young:a", 2)
    stage.alone.clock.advance(59)
    await stage.put("young:a", 2)
    assert await stage.run("young:a") == [1, 2, 3, 4]
    stage.alone.clock.advance(2)
    assert await stage.run("young:a") == [3, 4]
    stage.alone.clock.advance(60)
    assert await stage.run("young:a") == []
    await stage.put("young:a")
    assert await stage.run("young:a") == [5]


async def test_the_oldest_go_beyond_a_size_and_their_bytes_are_given_back(stage: Stage) -> None:
    await stage.put("small:a", 20)
    with pytest.raises(QuotaExceeded, match=f"{QUOTA} stored bytes"):
        await stage.put("small:a")
    assert await stage.run("small:a") == [18, 19, 20]
    await stage.put("small:a", 17)
    with pytest.raises(QuotaExceeded):
        await stage.put("small:a")
    assert await stage.alone.store.stored_bytes("acme") == 200
    assert stage.subscriptions.counters["acme"].reclaimed == 17
    assert stage.subscriptions.counters["acme"].reclaimed_bytes == 170


@pytest.mark.parametrize("is_open", [True, False])
async def test_a_limit_waits_for_who_still_has_to_get_a_message(
    stage: Stage, is_open: bool
) -> None:
    await stage.subscribe("few:a")
    await stage.subscribe("few:a", "slow")
    await stage.put("few:a", 6)
    await stage.ack("few:a", 6)
    await stage.ack("few:a", 1, "slow")
    if not is_open:
        stage.forget()
    assert await stage.run("few:a") == [2, 3, 4, 5, 6]
    assert await stage.get("few:a", "slow") == [2, 3, 4, 5, 6]
    assert (await stage.info("few:a", "slow")).missed == 0
    await stage.ack("few:a", 6, "slow")
    assert await stage.run("few:a") == [4, 5, 6]


async def test_a_subscription_without_a_place_in_this_epoch_has_everything_before_it(
    stage: Stage,
) -> None:
    await stage.subscribe("few:a")
    stage.forget()  # nothing was stored, so the channel counts anew
    await stage.put("few:a", 5)
    assert await stage.run("few:a") == [1, 2, 3, 4, 5]
    assert await stage.get("few:a") == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("is_open", [True, False])
async def test_what_all_have_acknowledged_goes_where_the_rules_say_so(
    stage: Stage, is_open: bool
) -> None:
    await stage.put("done:a", 2)
    assert await stage.run("done:a") == [1, 2], "nobody has acknowledged anything"
    await stage.subscribe("done:a")
    await stage.subscribe("done:a", "slow")
    await stage.put("done:a", 4)
    await stage.ack("done:a", 5)
    await stage.ack("done:a", 3, "slow")
    if not is_open:
        stage.forget()
    assert await stage.run("done:a") == [4, 5, 6]
    await stage.topics.unsubscribe(stage.hub, ANONYMOUS, TopicUnsubscribe("done:a", "slow"))
    assert await stage.run("done:a") == [6]
    await stage.ack("done:a", 6)
    assert await stage.run("done:a") == []
    await stage.put("done:a")
    assert await stage.get("done:a") == [7]
    assert (await stage.info("done:a")).missed == 0


async def test_gaps_in_what_is_acknowledged_hold_up_what_comes_behind(stage: Stage) -> None:
    shared = SubscriptionOptions(shared=True)
    await stage.topics.subscribe(stage.hub, ANONYMOUS, TopicSubscribe("done:a", "s", shared))
    await stage.put("done:a", 5)
    assert len(await stage.get("done:a")) == 5
    await stage.topics.acknowledge(stage.hub, ANONYMOUS, TopicAck("done:a", "s", (1, 3, 5)))
    assert await stage.run("done:a") == [2, 3, 4, 5]


@pytest.mark.parametrize("is_open", [True, False])
async def test_a_limit_that_drops_is_counted_by_whoever_missed_something(
    stage: Stage, is_open: bool
) -> None:
    await stage.subscribe("dropping:a")
    await stage.subscribe("dropping:a", "quick")
    await stage.put("dropping:a", 9)
    await stage.ack("dropping:a", 2)
    await stage.ack("dropping:a", 9, "quick")
    if not is_open:
        stage.forget()
    assert await stage.run("dropping:a") == [7, 8, 9]
    slow, quick = await stage.info("dropping:a"), await stage.info("dropping:a", "quick")
    assert (slow.missed, slow.floor, slow.lag) == (4, 6, 3)
    assert (quick.missed, quick.floor, quick.lag) == (0, 9, 0)
    assert stage.subscriptions.counters["acme"].missed == 4
    assert await stage.get("dropping:a") == [7, 8, 9]
    await stage.subscriptions.settle()
    stage.forget()
    assert (await stage.info("dropping:a")).missed == 4, "it is on disk, and counted once"
    assert stage.subscriptions.counters["acme"].missed == 4


async def test_dropping_and_reclaiming_go_together(stage: Stage) -> None:
    await stage.subscribe("both:a")
    await stage.put("both:a", 5)
    await stage.ack("both:a", 4)
    assert await stage.run("both:a") == [5]
    await stage.put("both:a", 5)
    assert await stage.run("both:a") == [8, 9, 10]
    assert (await stage.info("both:a")).missed == 3


async def test_what_is_not_in_the_journal_yet_stays(stage: Stage) -> None:
    await stage.put("few:a", 6)
    stage.exported = 2
    assert await stage.run("few:a") == [3, 4, 5, 6]
    stage.exported = 6
    assert await stage.run("few:a") == [4, 5, 6]


async def test_a_repeated_put_is_known_after_its_message_is_gone(stage: Stage) -> None:
    async def put(sequence: int) -> tuple[int, bool]:
        item = PublishItem("few:a", "e", BODY, JSON, producer=Producer("p", sequence))
        _, outcome = await stage.topics.put(stage.hub, ANONYMOUS, item)
        return outcome.serial, outcome.duplicate

    for sequence in range(1, 6):
        assert await put(sequence) == (sequence, False)
    assert await stage.run("few:a") == [3, 4, 5]
    for _ in range(2):
        assert await put(1) == (0, True)
        assert await put(5) == (5, True)
        stage.forget()
    counters = stage.hub.counters
    assert (counters.puts, counters.duplicates) == (5, 4)


async def test_an_owner_whose_place_was_taken_deletes_nothing(stage: Stage) -> None:
    await stage.put("few:a", 5)
    await stage.alone.store.acquire_partitions(range(PARTITIONS), "other")
    assert await stage.run("few:a") == [1, 2, 3, 4, 5]


async def test_a_hub_that_is_gone_harms_no_other(stage: Stage) -> None:
    await stage.put("few:a", 5)
    for name in ("aaa", "zzz"):
        other = msgspec.structs.replace(HUB, hub=name)
        await stage.alone.node.directory.declare([HUB, other])
        item = PublishItem("few:a", "e", BODY, JSON)
        hub = stage.alone.node.node.hub(name)
        await stage.topics.put(hub, ANONYMOUS, item)
    await stage.alone.node.directory.declare([HUB])
    assert await stage.run("few:a") == [3, 4, 5]


async def test_lag_counts_what_is_in_memory_and_what_is_only_on_disk(stage: Stage) -> None:
    await stage.subscribe("kept:a")
    await stage.subscribe("kept:a", "slow")
    await stage.put("kept:a", 9)
    await stage.ack("kept:a", 7)
    for is_open in (True, False):
        survey = await stage.lag(series=1)
        assert survey.hubs == {"acme": HubLag(subscriptions=2, total=11, largest=9)}
        (farthest,) = survey.farthest
        assert (farthest.key.channel, farthest.key.name, farthest.messages) == ("kept:a", "slow", 9)
        if is_open:
            stage.forget()
    assert (await stage.lag()).farthest == []


async def test_lag_does_not_count_what_is_gone_or_never_was(stage: Stage) -> None:
    await stage.subscribe("dropping:a")
    await stage.subscribe("dropping:empty")
    await stage.put("dropping:a", 9)
    stage.forget()
    await stage.retention.run()
    assert (await stage.lag()).hubs == {"acme": HubLag(subscriptions=2, total=3, largest=3)}


async def test_what_was_done_for_subscriptions_is_counted(stage: Stage) -> None:
    options = SubscriptionOptions(max_deliveries=1)
    await stage.topics.subscribe(stage.hub, ANONYMOUS, TopicSubscribe("kept:a", "s", options))
    await stage.put("kept:a", 3)
    assert await stage.get("kept:a") == [1, 2, 3]
    await stage.ack("kept:a", 2)
    await stage.ack("kept:a", 2)
    assert await stage.get("kept:a") == []
    await stage.subscriptions.settle()
    counters = stage.subscriptions.counters["acme"]
    assert (counters.handed_out, counters.acknowledged) == (3, 2)
    assert (counters.redelivered, counters.dead_letters) == (0, 1)
