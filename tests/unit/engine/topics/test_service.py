"""Topics: each put is stored once, each subscription gets everything, whatever fails in between.

The same tests run on a node alone and between two nodes on a network that loses, doubles and
delays.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from harness.engine import Alone, Cluster, EngineNode, FaultyStore
from harness.running_hub import OPEN
from harness.unreliable import Faults
from hubbub.domain.errors import (
    BadRequest,
    Conflict,
    HubbubError,
    InvalidName,
    NotPermitted,
    NotSubscribed,
    ProducerFenced,
    SequenceGap,
    SequenceReused,
    StoreUnavailable,
    TooLarge,
    TopicNotFound,
)
from hubbub.domain.history import PAGE_BYTES
from hubbub.domain.messages import JSON
from hubbub.domain.names import partition_of
from hubbub.domain.permissions import ANONYMOUS, Grant, Identity
from hubbub.domain.requests import (
    Producer,
    ProducerOpen,
    PublishItem,
    TopicAck,
    TopicGet,
    TopicSubscribe,
    TopicUnsubscribe,
)
from hubbub.domain.rules import HubConfiguration, HubSettings, Rules
from hubbub.domain.topics import SubscriptionOptions
from hubbub.engine.hub import Hub
from hubbub.engine.topics import cursor_cache
from hubbub.engine.topics.service import Topics
from hubbub.ports.storage.messages import StoredPage

STORED = msgspec.structs.replace(OPEN, store=True, live_history=False)
SHARED = SubscriptionOptions(shared=True, lease_seconds=30)
ANN, BOB = Identity(user_id="ann"), Identity(user_id="bob")
CONFIGURATION = HubConfiguration(
    hub="acme",
    settings=HubSettings(allow_anonymous=True, default_rules="open", topic_rules="stored"),
    rules={
        "open": OPEN,
        "stored": STORED,
        "private": Rules(store=True),
        "fleeting": Rules(public=True, client_publish=True, allow_anonymous=True),
    },
    namespaces={"kept": "stored", "secret": "private", "live": "fleeting"},
)
STORM = Faults(lost=0.1, doubled=0.3, longest_delay_seconds=0.003)
AWAY = StoreUnavailable("the disk is full")


class Stage:
    """A node whose users put and get, and the store below."""

    def __init__(self, node: EngineNode, home: EngineNode, store: FaultyStore, topic: str) -> None:
        self.node = node
        self.home = home
        """Where the topic is owned."""
        self.store = store
        self.topic = topic

    @property
    def hub(self) -> Hub:
        return self.node.node.hub("acme")

    async def put(
        self,
        sequence: int | None = None,
        payload: bytes = b"1",
        *,
        fence: int = 0,
        topic: str | None = None,
        who: Identity = ANONYMOUS,
        producer: str = "p",
    ) -> tuple[int, bool]:
        """The serial, and whether it was there already."""
        stamp = None if sequence is None else Producer(producer, sequence, fence)
        item = PublishItem(topic or self.topic, "e", payload, JSON, producer=stamp)
        _, outcome = await self.node.node.feature(Topics).put(self.hub, who, item)
        return outcome.serial, outcome.duplicate

    async def subscribe(
        self,
        name: str = "s",
        options: SubscriptionOptions | None = None,
        start: Literal["new", "first"] | int = "new",
        who: Identity = ANONYMOUS,
    ) -> None:
        topics = self.node.node.feature(Topics)
        await topics.subscribe(self.hub, who, TopicSubscribe(self.topic, name, options, start))

    async def get(
        self,
        limit: int = 100,
        name: str = "s",
        *,
        wait: float = 0,
        consumer: str = "",
        ack: int | None = None,
        who: Identity = ANONYMOUS,
    ) -> list[int]:
        """The serials that are handed out."""
        wanted = TopicGet(self.topic, name, limit, wait, consumer, ack)
        found = await self.node.node.feature(Topics).get(self.hub, who, wanted)
        return [article.message.serial for article in found.messages]

    async def ack(self, *serials: int, up_to: int | None = None, name: str = "s") -> int:
        topics = self.node.node.feature(Topics)
        done = TopicAck(self.topic, name, serials, up_to)
        return (await topics.acknowledge(self.hub, ANONYMOUS, done)).floor

    async def stored(self) -> list[bytes]:
        page = await self.store.read_after("acme", self.topic, 0, 1000)
        return [message.payload for message in page.messages]

    def forget(self) -> None:
        """The owner lets go of the channel, as it does when nobody has used it for a while."""
        self.home.owner.channels.close_idle(0)
        assert self.home.owner.channels.count() == 0

    @contextmanager
    def failing_appends(self) -> Iterator[None]:
        self.store.failing = AWAY
        try:
            yield
        finally:
            self.store.failing = None


@pytest.fixture(params=["alone", "storm"])
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    if request.param == "alone":
        async with Alone(tmp_path, hubs=[CONFIGURATION]) as alone:
            yield Stage(alone.node, alone.node, alone.store, "kept:news")
        return
    async with Cluster(tmp_path, seed=3, faults=STORM, hubs=[CONFIGURATION]) as cluster:
        topic = cluster.channel_of("west", "kept:news")
        yield Stage(cluster.nodes["east"], cluster.nodes["west"], cluster.store, topic)


# -- producers ----------------------------------------------------------------------------------


@pytest.mark.spec("ONCE-02")
async def test_a_repeated_put_is_stored_once_however_late_it_comes(stage: Stage) -> None:
    assert await stage.put(1, b"1") == (1, False)
    assert await stage.put(2, b"2") == (2, False)
    assert await stage.put(1, b"1") == (1, True)
    assert await stage.put(2, b"2") == (2, True)
    assert await stage.put(3, b"3") == (3, False)
    stage.forget()
    assert await stage.put(1, b"1") == (1, True)
    assert await stage.put(4, b"4") == (4, False)
    assert await stage.stored() == [b"1", b"2", b"3", b"4"]


@pytest.mark.spec("ONCE-02")
async def test_puts_that_are_sent_without_waiting_keep_their_order(stage: Stage) -> None:
    puts = [stage.put(n, b"%d" % n) for n in range(1, 51)]
    assert await asyncio.gather(*puts) == [(n, False) for n in range(1, 51)]
    assert await stage.stored() == [b"%d" % n for n in range(1, 51)]


@pytest.mark.spec("ONCE-02")
async def test_a_repeat_of_a_put_that_is_still_under_way_waits_for_it(stage: Stage) -> None:
    await stage.put(1)
    stage.store.held = asyncio.Event()
    puts = [asyncio.ensure_future(stage.put(2, b"2")) for _ in range(3)]
    other = asyncio.ensure_future(stage.put(2, b"other"))
    with pytest.raises(SequenceReused, match="sequence 2"):
        await other
    stage.store.held.set()
    assert sorted(await asyncio.gather(*puts)) == [(2, False), (2, True), (2, True)]
    assert await stage.stored() == [b"1", b"2"]


@pytest.mark.spec("ONCE-02")
async def test_the_same_sequence_with_other_content_is_refused(stage: Stage) -> None:
    await stage.put(1, b"1")
    with pytest.raises(SequenceReused, match="sequence 1"):
        await stage.put(1, b"2")
    assert await stage.put(2, b"2") == (2, False)


@pytest.mark.spec("ONCE-02")
async def test_a_put_out_of_turn_is_refused_with_the_expected_sequence(stage: Stage) -> None:
    with pytest.raises(SequenceGap, match="1 comes next"):
        await stage.put(7)
    await stage.put(1)
    with pytest.raises(SequenceGap, match="2 comes next"):
        await stage.put(3)
    for bad in (0, -1, 2**63):
        with pytest.raises(BadRequest, match=str(bad)):
            await stage.put(bad)
    with pytest.raises(InvalidName, match="producer"):
        await stage.put(1, producer="a*")


@pytest.mark.spec("ONCE-02")
async def test_a_put_that_fails_uses_up_no_sequence(stage: Stage) -> None:
    await stage.put(1, b"1")
    with stage.failing_appends():
        results = await asyncio.gather(
            *(stage.put(n, b"%d" % n) for n in (2, 3)), return_exceptions=True
        )
    assert all(isinstance(result, HubbubError) for result in results)
    assert await stage.put(2, b"2") == (2, False)
    assert await stage.put(3, b"3") == (3, False)


@pytest.mark.spec("ONCE-02")
async def test_a_put_that_is_refused_uses_up_no_sequence(stage: Stage) -> None:
    with pytest.raises(TooLarge):
        await stage.put(1, b"x" * 2_000_000)
    assert await stage.put(1, b"1") == (1, False)


@pytest.mark.spec("ONCE-02")
async def test_a_repeat_is_known_before_anything_speaks_against_it(stage: Stage) -> None:
    topic = f"secret:{stage.topic}"
    granted = Identity(user_id="ann", grants=(Grant("secret:*", publish=True),))
    assert await stage.put(1, topic=topic, who=granted) == (1, False)
    assert await stage.put(1, topic=topic, who=ANN) == (1, True), "the grant is gone by now"
    with pytest.raises(SequenceReused):
        await stage.put(1, b"other", topic=topic, who=ANN)
    with pytest.raises(NotPermitted):
        await stage.put(2, topic=topic, who=ANN)
    with pytest.raises(NotPermitted):
        await stage.put(1, topic=topic, who=BOB)
    assert await stage.put(2, topic=topic, who=granted) == (2, False)


@pytest.mark.spec("ONCE-02")
async def test_a_repeat_of_a_message_that_is_reclaimed_has_no_serial(stage: Stage) -> None:
    await stage.put(1)
    await stage.put(2)
    partition = partition_of("acme", stage.topic)
    term = stage.home.owner.terms[partition]
    await stage.store.delete_before("acme", stage.topic, 3, partition, term)
    assert await stage.put(1) == (0, True)
    stage.forget()
    assert await stage.put(2) == (0, True)
    assert await stage.put(3) == (3, False)


@pytest.mark.spec("ONCE-02")
async def test_producers_of_different_users_and_topics_do_not_meet(stage: Stage) -> None:
    assert await stage.put(1, who=ANN) == (1, False)
    assert await stage.put(1, b"2", who=BOB) == (2, False)
    assert await stage.put(1, b"3", who=ANN, producer="q") == (3, False)
    assert await stage.put(1, b"4", who=ANN, topic=f"{stage.topic}-2") == (1, False)


@pytest.mark.spec("ONCE-02")
async def test_who_opens_a_producer_takes_it_over_and_the_former_is_told(stage: Stage) -> None:
    async def opened() -> tuple[int, int]:
        topics = stage.node.node.feature(Topics)
        state = await topics.open_producer(stage.hub, ANONYMOUS, ProducerOpen(stage.topic, "p"))
        return state.fence, state.sequence

    assert await opened() == (1, 0)
    assert await stage.put(1, fence=1) == (1, False)
    assert await opened() == (2, 1)
    with pytest.raises(ProducerFenced, match="fence 1"):
        await stage.put(2, fence=1)
    assert await stage.put(1, fence=1) == (1, True), "a repeat is known even so"
    assert await stage.put(2, fence=2) == (2, False)
    stage.forget()
    with pytest.raises(ProducerFenced):
        await stage.put(3, fence=1)
    assert await opened() == (3, 2)


# -- topics -------------------------------------------------------------------------------------


@pytest.mark.spec("ONCE-01")
async def test_the_first_put_makes_a_channel_a_topic(stage: Stage) -> None:
    puts = [stage.put(n, topic="plain") for n in (1, 2, 3)]
    assert await asyncio.gather(*puts) == [(1, False), (2, False), (3, False)]
    assert await stage.put(topic="plain") == (4, False)
    assert stage.hub.rules_for("plain") == STORED
    assert await stage.put(topic="unstamped") == (1, False)


@pytest.mark.spec("ONCE-01")
async def test_a_channel_whose_rules_were_chosen_does_not_become_a_topic(stage: Stage) -> None:
    for sequence in (None, 1):
        with pytest.raises(TopicNotFound, match="live:x"):
            await stage.put(sequence, topic="live:x")
    assert not stage.hub.rules_for("live:x").store


# -- subscriptions ------------------------------------------------------------------------------


@pytest.mark.spec("ONCE-01")
async def test_a_topic_that_is_not_there_and_one_not_subscribed_to_differ(stage: Stage) -> None:
    with pytest.raises(TopicNotFound):
        await stage.get()
    await stage.put()
    with pytest.raises(NotSubscribed):
        await stage.get()
    await stage.subscribe(who=ANN)
    with pytest.raises(NotSubscribed):
        await stage.get(who=BOB)
    assert await stage.get(who=ANN) == []


@pytest.mark.spec("ONCE-03")
async def test_a_subscription_gets_what_is_put_after_it_in_order_until_acknowledged(
    stage: Stage,
) -> None:
    await stage.put()
    await stage.subscribe()
    for _ in range(5):
        await stage.put()
    assert await stage.get(2) == [2, 3]
    assert await stage.get(2) == [2, 3]
    assert await stage.ack(2) == 2
    assert await stage.get(2) == [3, 4]
    assert await stage.get(2, ack=4) == [5, 6]
    assert await stage.ack(up_to=6) == 6
    assert await stage.get() == []


@pytest.mark.spec("ONCE-03")
async def test_what_is_acknowledged_stays_so_when_the_owner_forgets(stage: Stage) -> None:
    await stage.subscribe()
    await stage.subscribe("early", start="first")
    for _ in range(4):
        await stage.put()
    await stage.get()
    await stage.ack(1, 3)
    stage.forget()
    wanted = TopicGet(stage.topic, "s", 100)
    found = await stage.node.node.feature(Topics).get(stage.hub, ANONYMOUS, wanted)
    assert [(a.message.serial, a.redelivered) for a in found.messages] == [(2, True), (4, True)]
    assert await stage.get(name="early") == [1, 2, 3, 4]
    await stage.subscribe("late", start="first")
    await stage.subscribe("third", start=2)
    assert await stage.get(name="late") == [1, 2, 3, 4]
    assert await stage.get(name="third") == [3, 4]
    await stage.subscribe()
    assert await stage.get() == [2, 4], "subscribing again changes nothing"


@pytest.mark.spec("ONCE-03")
async def test_a_backlog_is_read_to_its_end_from_the_store(stage: Stage) -> None:
    await stage.subscribe()
    await asyncio.gather(*(stage.put(n, b"%d" % n) for n in range(1, 1301)))
    stage.forget()
    got: list[int] = []
    while found := await stage.get(70, ack=got[-1] if got else None):
        got.extend(found)
    assert got == list(range(1, 1301))


@pytest.mark.spec("ONCE-04")
async def test_a_get_that_waits_is_woken_by_a_put(stage: Stage) -> None:
    await stage.subscribe()
    waiting = asyncio.ensure_future(stage.get(wait=60))
    others = asyncio.ensure_future(stage.get(wait=60))
    while not stage.home.owner.channels.count():
        await asyncio.sleep(0)
    await stage.put()
    assert await waiting == [1]
    assert await others == [1]


@pytest.mark.spec("ONCE-03")
async def test_a_hub_that_stops_sends_waiting_consumers_away_and_saves_acknowledgements(
    stage: Stage,
) -> None:
    await stage.subscribe()
    await stage.subscribe("idle", start="first")
    for _ in range(3):
        await stage.put()
    await stage.get()
    await stage.get(name="idle", ack=3)
    waiting = asyncio.ensure_future(stage.get(name="idle", wait=3))
    acknowledging = asyncio.ensure_future(stage.ack(2))
    stage.node.node.feature(Topics).draining = True
    while not (waiting.done() and acknowledging.done()):
        await stage.home.subscriptions.settle()
        await asyncio.sleep(0)
    assert await waiting == []
    assert await acknowledging == 0
    (cursor,) = [c for c in await stage.store.read_cursors("acme", stage.topic) if c.name == "s"]
    assert b"\x02\x02" in cursor.state, "serial 2 is done"


@pytest.mark.spec("ONCE-02")
async def test_more_producers_than_are_kept_in_memory_are_all_known(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub.engine.channels.producers.MAX_PRODUCERS", 3)
    for turn in (1, 2):
        for number in range(8):
            serial, duplicate = await stage.put(1, b"%d" % number, producer=f"p{number}")
            assert (serial, duplicate) == (number + 1, turn == 2)


@pytest.mark.spec("ONCE-01")
async def test_an_ended_subscription_is_gone_and_begins_anew(stage: Stage) -> None:
    topics = stage.node.node.feature(Topics)
    await stage.subscribe()
    await stage.put()
    await topics.unsubscribe(stage.hub, ANONYMOUS, TopicUnsubscribe(stage.topic, "s"))
    for _ in range(2):
        with pytest.raises(NotSubscribed):
            await topics.unsubscribe(stage.hub, ANONYMOUS, TopicUnsubscribe(stage.topic, "s"))
        stage.forget()
    await stage.subscribe()
    assert await stage.get() == []


@pytest.mark.spec("ONCE-03")
async def test_a_shared_subscription_gives_each_message_to_one_consumer(stage: Stage) -> None:
    await stage.subscribe(options=SHARED)
    for _ in range(6):
        await stage.put()
    assert await stage.get(2, consumer="a") == [1, 2]
    assert await stage.get(3, consumer="b") == [3, 4, 5]
    await stage.ack(2)
    clock = stage.node.node.clock
    clock.advance(31)  # type: ignore[attr-defined]
    stage.home.subscriptions.sweep()
    assert await stage.get(9, consumer="c") == [1, 3, 4, 5, 6]


@pytest.mark.spec("ONCE-01")
async def test_one_message_for_each_topic_of_the_caller(stage: Stage) -> None:
    topics = stage.node.node.feature(Topics)
    for topic in ("kept:a", "kept:b", "kept:c"):
        await topics.subscribe(stage.hub, ANN, TopicSubscribe(topic, "s"))
    await topics.subscribe(stage.hub, BOB, TopicSubscribe("kept:d", "s"))
    for topic in ("kept:a", "kept:a", "kept:c", "kept:d"):
        await stage.put(topic=topic)
    found = await topics.get_each(stage.hub, ANN, "s")
    serials = {
        topic: [article.message.serial for article in each.messages]
        for topic, each in found.topics.items()
    }
    assert serials == {
        "kept:a": [1],
        "kept:b": [],
        "kept:c": [1],
    }
    own = await topics.list_own(stage.hub, ANN)
    assert [(info.key.channel, info.lag) for info in own.subscriptions] == [
        ("kept:a", 2),
        ("kept:b", 0),
        ("kept:c", 1),
    ]
    first, following = await topics.list_all("acme", 3)
    rest, end = await topics.list_all("acme", 3, after=following)
    assert (len(first), len(rest), end) == (3, 1, None)


@pytest.mark.spec("ONCE-01", "SEC-01")
async def test_messages_of_many_topics_are_bounded_in_bytes_and_every_topic_has_its_turn(
    stage: Stage,
) -> None:
    topics, channels = stage.node.node.feature(Topics), {f"kept:large{n}" for n in range(16)}
    payload = b'"%b"' % (b"x" * 150_000)
    for topic in channels:
        await topics.subscribe(stage.hub, ANN, TopicSubscribe(topic, "s"))
        await stage.put(payload=payload, topic=topic)
    received: set[str] = set()
    while received != channels:
        found = (await topics.get_each(stage.hub, ANN, "s")).topics
        assert found.keys() == channels
        messages = [
            (topic, each.messages[0].message) for topic, each in found.items() if each.messages
        ]
        at_once = 4 * len(payload)
        assert len(messages) * len(payload) <= PAGE_BYTES + at_once
        for topic, message in messages:
            received.add(topic)
            await topics.acknowledge(stage.hub, ANN, TopicAck(topic, "s", (message.serial,)))


@pytest.mark.spec("ONCE-03")
async def test_a_message_that_was_handed_out_too_often_goes_to_the_dead_letters(
    stage: Stage,
) -> None:
    await stage.subscribe(options=SubscriptionOptions(max_deliveries=2))
    await stage.put(payload=b"bad")
    await stage.put(payload=b"good")
    for _ in range(2):
        assert await stage.get(1) == [1]
    assert await stage.get(1, wait=5) == [2]
    topics = stage.node.node.feature(Topics)
    info = await topics.info(stage.hub, ANONYMOUS, stage.topic, "s")
    assert (info.dead_letters, info.floor) == (1, 1)
    page = await stage.store.read_after("acme", f"{stage.topic}.dead", 0, 9)
    assert [m.payload for m in page.messages] == [b"bad"]
    (letter,) = page.messages
    assert letter.attributes is not None
    assert letter.attributes.headers is not None
    assert letter.attributes.headers["deadSerial"] == "1"


@pytest.mark.spec("ONCE-03")
async def test_an_acknowledgement_that_could_not_be_saved_can_be_repeated(stage: Stage) -> None:
    await stage.subscribe()
    await stage.put()
    await stage.get()
    save = stage.store.save_cursor

    async def fail(*_: object) -> None:
        raise AWAY

    stage.store.save_cursor = fail  # type: ignore[method-assign, assignment]
    with pytest.raises(StoreUnavailable):
        await stage.ack(1)
    stage.store.save_cursor = save  # type: ignore[method-assign]
    assert await stage.ack(1) == 1
    stage.forget()
    assert await stage.get() == []


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (SubscriptionOptions(lease_seconds=0), "leaseSeconds"),
        (SubscriptionOptions(lease_seconds=float("nan")), "leaseSeconds"),
        (SubscriptionOptions(max_unacknowledged=0), "maxUnacknowledged"),
        (SubscriptionOptions(max_deliveries=-1), "maxDeliveries"),
        (SubscriptionOptions(dead_letters="x"), "deadLetters"),
    ],
)
async def test_options_that_make_no_sense_are_named(
    stage: Stage, options: SubscriptionOptions, named: str
) -> None:
    with pytest.raises(BadRequest, match=named):
        await stage.subscribe(options=options)


async def test_requests_that_make_no_sense_are_refused(stage: Stage) -> None:
    await stage.subscribe()
    await stage.put()
    for limit in (0, 1001):
        with pytest.raises(BadRequest, match=str(limit)):
            await stage.get(limit)
    with pytest.raises(BadRequest, match="serials or upTo"):
        await stage.ack()
    with pytest.raises(Conflict, match="7"):
        await stage.ack(7)
    with pytest.raises(BadRequest, match="start"):
        await stage.subscribe("x", start=5)
    with pytest.raises(InvalidName, match="subscription"):
        await stage.subscribe("a#")


@pytest.mark.spec("ONCE-03")
@pytest.mark.parametrize("fails", [False, True])
async def test_pages_are_read_ahead_and_a_read_that_fails_costs_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """Fourteen messages in pages of four, all from the store."""
    monkeypatch.setattr(cursor_cache, "_READ_AHEAD", 4)
    await asyncio.gather(*(stage.put(number) for number in range(1, 15)))
    stage.forget()
    await stage.subscribe(start=0)
    read_after, pages = stage.store.read_after, []

    async def read(hub: str, channel: str, serial: int, limit: int) -> StoredPage:
        pages.append(serial)
        if fails and serial == 4 and pages.count(4) == 1:
            raise AWAY
        return await read_after(hub, channel, serial, limit)

    monkeypatch.setattr(stage.store, "read_after", read)
    found: list[int] = []
    while serials := await stage.get(3, ack=found[-1] if found else None):
        found += serials
    assert found == list(range(1, 15))
    assert pages == ([0, 4, 4, 8, 12] if fails else [0, 4, 8, 12])
