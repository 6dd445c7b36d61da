"""The owner of channels: what it does when the store fails in the middle, and how it begins and
lets go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from harness.engine import Alone, publish
from harness.moving import MovingCluster
from harness.running_hub import OPEN, open_hub
from hubbub.domain.errors import HubNotFound, QuotaExceeded, StaleOwner, StoreUnavailable
from hubbub.domain.history import HistoryQuery
from hubbub.domain.messages import JSON, Message
from hubbub.domain.names import PARTITIONS, partition_of
from hubbub.domain.rules import Quotas, Rules
from hubbub.engine.channels.announcements import ROUND
from hubbub.engine.channels.stored_bytes import ENVELOPE_BYTES
from hubbub.ports.bus import Attach, Attachment, Detach, FollowedState, PublishOutcome
from hubbub.ports.storage.messages import ChannelHead

pytestmark = pytest.mark.spec("LIVE-10", "OPS-03")

STORED = msgspec.structs.replace(OPEN, store=True, retain=True, live_history=False)
AWAY = StoreUnavailable("the disk is full")


@pytest.fixture
async def alone(tmp_path: Path) -> AsyncIterator[Alone]:
    async with Alone(tmp_path, hubs=[open_hub(rules=STORED)]) as running:
        yield running


class Publisher:
    """Publishes straight to the owner and collects what becomes of it."""

    def __init__(self, alone: Alone, channel: str = "news") -> None:
        self._owner = alone.node.owner
        self._channel = channel
        self._count = 0
        self.outcomes: dict[str, PublishOutcome] = {}
        self._answered = asyncio.Event()

    def publish(self, count: int, store: bool = True, retain: bool = False) -> None:
        for _ in range(count):
            self._count += 1
            name = f"m{self._count}"
            message = Message(
                name, "acme", self._channel, "e", b"1", JSON, 1000, store=store, retain=retain
            )
            self._owner.publish(message, partial(self._note, name))

    def _note(self, name: str, outcome: PublishOutcome) -> None:
        assert name not in self.outcomes, "answered twice"
        self.outcomes[name] = outcome
        self._answered.set()

    async def all_answered(self) -> list[int | str]:
        """For each, in the order of publishing: its serial, or the code of its error."""
        async with asyncio.timeout(5):
            while len(self.outcomes) < self._count:
                self._answered.clear()
                await self._answered.wait()
        ordered = [self.outcomes[f"m{number}"] for number in range(1, self._count + 1)]
        return [each.serial if each.error is None else each.error.code for each in ordered]


async def stored(alone: Alone, channel: str = "news") -> list[int]:
    page = await alone.store.read_after("acme", channel, 0, 1000)
    return [message.serial for message in page.messages]


async def flying(alone: Alone) -> None:
    """Wait until an append has reached the store."""
    before = len(alone.store.batches)
    async with asyncio.timeout(5):
        while len(alone.store.batches) == before:
            await asyncio.sleep(0)


@pytest.mark.spec("ADMIN-05")
async def test_messages_that_wait_for_the_store_are_counted(alone: Alone) -> None:
    publisher, owner = Publisher(alone), alone.node.owner
    publisher.publish(1)
    await publisher.all_answered()
    assert owner.waiting_writes() == 0
    alone.store.held = asyncio.Event()
    publisher.publish(3)
    publisher.publish(2, store=False)  # behind them, in order
    assert owner.waiting_writes() == 5
    alone.store.held.set()
    assert await publisher.all_answered() == [1, 2, 3, 4, 0, 0]
    assert owner.waiting_writes() == 0


async def test_a_failed_append_answers_everyone_and_leaves_no_gap(alone: Alone) -> None:
    publisher = Publisher(alone)
    publisher.publish(3)
    assert await publisher.all_answered() == [1, 2, 3]
    alone.store.failing = AWAY
    publisher.publish(2)
    assert (await publisher.all_answered())[3:] == ["store_unavailable"] * 2
    alone.store.failing = None
    publisher.publish(2)
    assert (await publisher.all_answered())[5:] == [4, 5]
    assert await stored(alone) == [1, 2, 3, 4, 5]


async def test_what_waits_behind_a_failed_append_is_tried_with_the_same_serials(
    alone: Alone,
) -> None:
    publisher = Publisher(alone)
    publisher.publish(1)
    await publisher.all_answered()
    alone.store.held = asyncio.Event()
    alone.store.failing = AWAY
    publisher.publish(2)
    await flying(alone)
    publisher.publish(3)
    alone.store.held.set()
    while len(publisher.outcomes) < 3:
        await asyncio.sleep(0)
    alone.store.failing = None
    assert await publisher.all_answered() == [1, *["store_unavailable"] * 2, 2, 3, 4]
    assert await stored(alone) == [1, 2, 3, 4]


async def test_subscribers_see_only_what_was_stored(alone: Alone) -> None:
    listener = await alone.node.subscribe("news")
    publisher = Publisher(alone)
    publisher.publish(1)
    await publisher.all_answered()
    alone.store.failing = AWAY
    publisher.publish(1)
    await publisher.all_answered()
    alone.store.failing = None
    publisher.publish(1)
    await publisher.all_answered()
    await listener.delivered("news", 2)
    assert [message.id for message in listener.deliveries("news")] == ["m1", "m3"]


async def test_a_failure_of_one_channel_does_not_touch_another(alone: Alone) -> None:
    """One is fenced off by a newer owner; its neighbour in the same batch is stored."""
    fenced, free = Publisher(alone, "fenced"), Publisher(alone, "free")
    fenced.publish(1)
    free.publish(1)
    await fenced.all_answered()
    await free.all_answered()
    partition = alone.store.batches[0][0].partition
    await alone.store.acquire_partitions([partition], "another node")
    fenced.publish(1)
    free.publish(2)
    assert await fenced.all_answered() == [1, StaleOwner.code]
    assert await free.all_answered() == [1, 2, 3]
    assert await stored(alone, "fenced") == [1]


async def test_who_follows_many_channels_does_not_wait_for_one_that_moves_meanwhile(
    alone: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node would else never tell its owners again what it follows."""
    read_head, go_on = alone.store.read_head, asyncio.Event()

    async def slowly(hub: str, channel: str) -> ChannelHead | None:
        await go_on.wait()
        return await read_head(hub, channel)

    monkeypatch.setattr(alone.store, "read_head", slowly)
    owner = alone.node.owner
    followings = [FollowedState("acme", name, (), 1) for name in ("stays", "moves")]
    following = asyncio.ensure_future(owner.follow("north", followings))
    while owner.channels.count() < 2:
        await asyncio.sleep(0)
    await owner.release({partition_of("acme", "moves")})
    go_on.set()
    stays, moves = await asyncio.wait_for(following, 5)
    assert isinstance(stays, Attachment)
    assert isinstance(moves, StaleOwner)


async def test_unstored_messages_keep_their_place_behind_stored_ones(alone: Alone) -> None:
    listener = await alone.node.subscribe("news")
    publisher = Publisher(alone)
    alone.store.held = asyncio.Event()
    publisher.publish(1)
    await flying(alone)
    publisher.publish(1, store=False)
    publisher.publish(1)
    alone.store.held.set()
    assert await publisher.all_answered() == [1, 0, 2]
    await listener.delivered("news", 3)
    assert [message.id for message in listener.deliveries("news")] == ["m1", "m2", "m3"]


async def test_many_publishes_of_one_turn_are_one_append(alone: Alone) -> None:
    publisher = Publisher(alone)
    publisher.publish(1)
    await publisher.all_answered()
    publisher.publish(200)
    await publisher.all_answered()
    assert [len(batch) for batch in alone.store.batches] == [1, 200]


async def test_a_channel_that_could_not_be_loaded_is_loaded_with_the_next_request(
    alone: Alone,
) -> None:
    read_head = alone.store.read_head

    async def failing(hub: str, channel: str) -> None:
        raise AWAY

    alone.store.read_head = failing  # type: ignore[method-assign]
    publisher = Publisher(alone)
    publisher.publish(2)
    assert await publisher.all_answered() == ["store_unavailable"] * 2
    with pytest.raises(StoreUnavailable):
        await alone.node.bus.ask(Attach("acme", "news"))
    with pytest.raises(StoreUnavailable):
        await alone.node.bus.ask(HistoryQuery("acme", "news", 10))
    alone.store.read_head = read_head  # type: ignore[method-assign]
    publisher.publish(1)
    assert (await publisher.all_answered())[2:] == [1]


async def test_a_retained_message_that_could_not_be_saved_is_answered_with_the_error(
    tmp_path: Path,
) -> None:
    rules = msgspec.structs.replace(OPEN, retain=True)
    async with Alone(tmp_path, hubs=[open_hub(rules=rules)]) as alone:
        save = alone.store.save_retained

        async def failing(*_: object) -> None:
            raise AWAY

        alone.store.save_retained = failing  # type: ignore[method-assign,assignment]
        publisher = Publisher(alone)
        publisher.publish(1, store=False, retain=True)
        assert await publisher.all_answered() == ["store_unavailable"]
        alone.store.save_retained = save  # type: ignore[method-assign]
        publisher.publish(5, store=False, retain=True)
        assert (await publisher.all_answered())[1:] == [2, 3, 4, 5, 6]
        kept = await alone.store.read_retained("acme", "news", 0)
        assert kept is not None
        assert kept.message.id == "m6"


async def test_idle_channels_are_let_go_and_go_on_where_they_were(alone: Alone) -> None:
    publisher = Publisher(alone)
    publisher.publish(2)
    await publisher.all_answered()
    before = await alone.node.bus.ask(Attach("acme", "news"))
    alone.node.bus.tell(Detach("acme", "news"))
    alone.clock.advance(61)
    assert alone.node.owner.channels.close_idle(60) == 1
    assert alone.node.owner.channels.count() == 0
    after = await alone.node.bus.ask(Attach("acme", "news"))
    assert (after.epoch, after.head) == (before.epoch, 2)


async def test_a_channel_with_work_under_way_is_not_idle(alone: Alone) -> None:
    publisher = Publisher(alone)
    publisher.publish(1)
    await publisher.all_answered()
    alone.store.held = asyncio.Event()
    publisher.publish(1)
    await flying(alone)
    alone.clock.advance(1000)
    assert alone.node.owner.channels.close_idle(60) == 0
    alone.store.held.set()
    assert await publisher.all_answered() == [1, 2]


async def test_stopping_lets_everything_accepted_become_durable(alone: Alone) -> None:
    publisher = Publisher(alone)
    alone.store.held = asyncio.Event()
    publisher.publish(50)
    stopping = asyncio.create_task(alone.node.owner.stop())
    await flying(alone)
    alone.store.held.set()
    await stopping
    assert await publisher.all_answered() == list(range(1, 51))


async def test_a_live_channel_that_comes_back_has_an_epoch_that_nobody_has_seen(
    tmp_path: Path,
) -> None:
    async with Alone(tmp_path) as alone:
        first = await alone.node.bus.ask(Attach("acme", "news"))
        alone.node.bus.tell(Detach("acme", "news"))
        alone.clock.advance(61)
        alone.node.owner.channels.close_idle(60)
        second = await alone.node.bus.ask(Attach("acme", "news"))
        assert second.epoch != first.epoch
        query = HistoryQuery("acme", "news", 10, after=0, epoch=first.epoch)
        assert (await alone.node.bus.ask(query)).recovered is False


SMALL = 1 + ENVELOPE_BYTES


async def test_quotas_of_channels_and_stored_bytes_are_kept(tmp_path: Path) -> None:
    hub = open_hub(rules=STORED, quotas=Quotas(channels=2, stored_bytes=3 * SMALL))
    async with Alone(tmp_path, hubs=[hub]) as alone:
        first, second, third = (Publisher(alone, name) for name in "abc")
        first.publish(3)
        await first.all_answered()
        first.publish(1)
        assert await first.all_answered() == [1, 2, 3, QuotaExceeded.code]
        second.publish(1, store=False)
        assert await second.all_answered() == [0]
        third.publish(1)
        assert await third.all_answered() == [QuotaExceeded.code]


@pytest.mark.parametrize("behind_append", [False, True])
async def test_publishes_that_end_with_their_channel_use_up_no_stored_bytes(
    tmp_path: Path, behind_append: bool
) -> None:
    hub = open_hub(rules=STORED, quotas=Quotas(stored_bytes=4 * SMALL))
    async with Alone(tmp_path, hubs=[hub]) as alone:
        publisher, other = Publisher(alone), Publisher(alone, "other")
        publisher.publish(1)
        await publisher.all_answered()
        alone.store.held = asyncio.Event()
        publisher.publish(1)
        if behind_append:
            await flying(alone)
        publisher.publish(2)
        alone.node.owner.channels.release([partition_of("acme", "news")])
        alone.store.held.set()
        answers = await publisher.all_answered()
        kept = 2 if behind_append else 1
        assert answers == [1, 2][:kept] + [StaleOwner.code] * (4 - kept)
        await asyncio.sleep(0)
        other.publish(5 - kept)
        assert await other.all_answered() == [*range(1, 5 - kept), QuotaExceeded.code]


async def test_a_hub_that_is_not_there_is_said_not_to_be_there(alone: Alone) -> None:
    with pytest.raises(HubNotFound):
        await alone.node.bus.ask(Attach("nowhere", "news"))
    assert alone.node.owner.channels.count() == 0


async def test_rules_that_change_during_an_append_apply_when_it_has_landed(alone: Alone) -> None:
    publisher = Publisher(alone)
    publisher.publish(1)
    await publisher.all_answered()
    alone.store.held = asyncio.Event()
    publisher.publish(2)
    await flying(alone)
    publisher.publish(2)
    live = Rules(public=True, live_history=True)
    await alone.node.directory.put("acme", "rules", "default", live)
    alone.store.held.set()
    outcomes = await publisher.all_answered()
    assert outcomes[:3] == [1, 2, 3]
    assert await stored(alone) == [1, 2, 3]
    page = await alone.node.bus.ask(HistoryQuery("acme", "news", 10, after=0))
    assert [message.id for message in page.messages] == ["m4", "m5"]
    assert outcomes[3:] == [1, 2], "a live channel counts for itself"


async def test_all_partitions_are_owned(alone: Alone) -> None:
    publisher = Publisher(alone)
    publisher.publish(1)
    await publisher.all_answered()
    (append,) = alone.store.batches[0]
    assert 0 <= append.partition < PARTITIONS
    assert append.term > 0


async def test_every_head_is_told_again_within_a_round(alone: Alone) -> None:
    """A follower that missed a message, and the two words about it, must not wait for the next."""
    names = [f"c{number}" for number in range(12)]
    for name in names:
        await alone.node.owner.ask("other", Attach("acme", name))
    told: list[str] = []
    alone.node.owner._announcements._emit = lambda nodes, hub, name, event: told.append(name)
    for _ in range(ROUND):
        alone.node.owner.announce_news()
    assert set(told) == set(names)
    told.clear()
    partition = partition_of("acme", "c3")
    alone.node.owner.channels.release([partition])
    for _ in range(ROUND):
        alone.node.owner.announce_news()
    assert set(told) == {name for name in names if name != "c3"}


async def test_what_was_missed_on_a_silent_channel_comes_without_another_message(
    tmp_path: Path,
) -> None:
    async with MovingCluster(tmp_path) as cluster:
        channel = cluster.channel_of("east")
        follower = await cluster.nodes["west"].subscribe(channel)
        cluster.network.cut.add(("east", "west"))
        speaker = cluster.nodes["east"].connect()
        publish(speaker, channel, b"1")
        owner = cluster.nodes["east"].owner
        for _ in range(2):
            owner.announce_news()  # both words about it are lost, too
        await asyncio.sleep(0)
        cluster.network.cut.clear()
        assert follower.deliveries(channel) == []
        for _ in range(ROUND):
            owner.announce_news()
        await follower.delivered(channel, 1)
