"""A message whose time to live is over: nobody gets it any more, history still returns it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.engine import Alone, FakeConnection, receive, subscribe
from harness.receivers import Receiver
from harness.running_hub import OPEN, open_hub
from harness.webhooks import FAST, acknowledged, until
from harness.webhooks import subscribe as subscribe_webhook
from hubbub.domain.journal import (
    ACKNOWLEDGED,
    DELIVERED,
    EXPIRED,
    RECEIVED,
    JournalEvent,
    PayloadRule,
)
from hubbub.domain.messages import JSON, Attributes, Message
from hubbub.domain.notices import HistoryPage, MessageDelivery, Published
from hubbub.domain.permissions import ANONYMOUS
from hubbub.domain.requests import (
    History,
    Publish,
    PublishItem,
    TopicAck,
    TopicGet,
    TopicSubscribe,
)
from hubbub.domain.topics import Article, SubscriptionOptions
from hubbub.engine.topics.service import Topics
from hubbub.engine.webhooks.service import Webhooks

STORED = msgspec.structs.replace(OPEN, store=True, store_by_default=True, retain=True)
SHARED = SubscriptionOptions(shared=True, lease_seconds=30)
TTL = Attributes(ttl=1000)
LATER_SECONDS = 2.0


class Notes:
    """A journal that remembers what it was told."""

    enabled = True

    def __init__(self) -> None:
        self.events: list[JournalEvent] = []
        self.messages: list[Message] = []
        self.flush: list[Callable[[bool], None]] = []

    def record(self, event: JournalEvent) -> None:
        self.events.append(event)

    def published(self, message: Message, epoch: str, rule: PayloadRule) -> None:
        self.messages.append(message)

    def add_source(self, flush: Callable[[bool], None]) -> None:
        self.flush.append(flush)

    def runs(self, kind: str) -> list[tuple[int | None, int | None, int | None]]:
        for flush in self.flush:
            flush(True)
        return [(e.first_serial, e.serial, e.count) for e in self.events if e.kind == kind]


class Stage:
    def __init__(self, alone: Alone, notes: Notes) -> None:
        self.alone = alone
        self.notes = notes
        self.node = alone.node.node
        self.clock = alone.clock

    def send(self, *given: Attributes | None, **flags: Any) -> FakeConnection:
        """Publish one message for each; without waiting for the disk."""
        connection = self.alone.node.connect()
        items = tuple(
            PublishItem("news", "e", b"1", JSON, req_id=1, attributes=each, **flags)
            for each in given
        )
        receive(connection, Publish(items))
        return connection

    async def publish(self, *given: Attributes | None, **flags: Any) -> None:
        connection = self.send(*given, **flags)
        await connection.until(
            lambda: sum(len(each.results) for each in connection.all(Published)) == len(given)
        )

    async def history(self) -> tuple[Message, ...]:
        connection = self.alone.node.connect()
        receive(connection, History("news", 1))
        return (await connection.next(HistoryPage)).messages

    async def subscribe_topic(self, options: SubscriptionOptions | None = None) -> None:
        hub = self.node.hub("acme")
        await self.node.feature(Topics).subscribe(
            hub, ANONYMOUS, TopicSubscribe("news", "s", options)
        )

    async def get(self, limit: int = 100, wait: float = 0.0) -> list[Article]:
        hub = self.node.hub("acme")
        wanted = TopicGet("news", "s", limit, wait)
        return list((await self.node.feature(Topics).get(hub, ANONYMOUS, wanted)).messages)

    async def serials(self, limit: int = 100) -> list[int]:
        return [article.message.serial for article in await self.get(limit)]

    async def floor(self) -> int:
        own = await self.node.feature(Topics).list_own(self.node.hub("acme"), ANONYMOUS)
        return own.subscriptions[0].floor


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    notes = Notes()
    hub = open_hub("acme", STORED, callback_addresses="loopback")
    async with Alone(tmp_path, hubs=[hub], webhooks=FAST, journal=notes) as alone:
        yield Stage(alone, notes)


def heard(connection: FakeConnection) -> list[tuple[int, int | None]]:
    return [(d.message.serial, d.previous_serial) for d in connection.all(MessageDelivery)]


# -- live -----------------------------------------------------------------------------------------


@pytest.mark.spec("LIVE-20")
async def test_what_expired_on_the_way_to_the_disk_is_not_delivered_live(stage: Stage) -> None:
    await stage.publish(None)
    live = await stage.alone.node.subscribe("news")
    stage.alone.store.held = asyncio.Event()
    publisher = stage.send(TTL, Attributes(ttl=0), TTL)
    await until(lambda: len(stage.alone.store.batches) == 2)
    stage.clock.advance(LATER_SECONDS)
    stage.alone.store.held.set()
    await publisher.until(lambda: publisher.all(Published))
    await stage.publish(TTL)
    await live.delivered("news", 2)
    assert heard(live) == [(3, 1), (5, 3)]  # each names the one that it follows
    assert [message.serial for message in await stage.history()] == [1, 2, 3, 4, 5]
    assert stage.node.counters["acme"].messages_expired == 2
    assert stage.notes.runs(EXPIRED) == [(2, 2, 1), (4, 4, 1)]
    assert stage.notes.runs(DELIVERED) == [(3, 5, 2)]


@pytest.mark.spec("LIVE-20")
async def test_what_expired_is_not_among_what_a_session_missed(stage: Stage) -> None:
    await stage.publish(None, TTL, TTL, None, TTL)
    stage.clock.advance(LATER_SECONDS)
    late = stage.alone.node.connect()
    await subscribe(late, "news", serial=0)
    await stage.publish(None)
    await late.delivered("news", 3)
    assert heard(late) == [(1, None), (4, 1), (6, 4)]
    assert stage.notes.runs(EXPIRED) == [(2, 3, 2), (5, 5, 1)]


@pytest.mark.spec("LIVE-20")
async def test_an_expired_retained_message_is_not_sent_on_subscribe(stage: Stage) -> None:
    await stage.publish(TTL, retain=True)
    early = await stage.alone.node.subscribe("news")
    assert [d.retained for d in early.all(MessageDelivery)] == [True]
    stage.clock.advance(LATER_SECONDS)
    late = await stage.alone.node.subscribe("news")
    await stage.publish(None)
    await late.delivered("news", 1)
    assert heard(late) == [(2, None)]


@pytest.mark.spec("LIVE-20")
async def test_a_retained_message_that_came_by_the_feed_expires_too(stage: Stage) -> None:
    """It is known to the node, and newer than the owner's answer may be."""
    first = await stage.alone.node.subscribe("news")
    await stage.publish(TTL, retain=True)
    await first.delivered("news", 1)
    stage.clock.advance(LATER_SECONDS)
    late = await stage.alone.node.subscribe("news")
    await stage.publish(None)
    await late.delivered("news", 1)
    assert heard(late) == [(2, None)]


# -- topics ---------------------------------------------------------------------------------------


@pytest.mark.spec("LIVE-20")
async def test_a_topic_does_not_hand_out_what_expired_and_its_cursor_moves_on(stage: Stage) -> None:
    await stage.subscribe_topic()
    await stage.publish(TTL, None, TTL, TTL, None, TTL)
    stage.clock.advance(LATER_SECONDS)
    assert await stage.serials(limit=1) == [2]
    assert await stage.floor() == 1
    assert await stage.serials() == [2, 5]
    hub = stage.node.hub("acme")
    await stage.node.feature(Topics).acknowledge(hub, ANONYMOUS, TopicAck("news", "s", (2, 5)))
    assert await stage.serials() == []
    assert await stage.floor() == 6
    assert stage.alone.node.subscriptions.counters["acme"].expired == 4
    assert sorted(stage.notes.runs(EXPIRED)) == [(1, 1, 1), (3, 4, 2), (6, 6, 1)]
    assert len(await stage.history()) == 6


@pytest.mark.spec("LIVE-20")
async def test_a_shared_subscription_looks_behind_what_expired(stage: Stage) -> None:
    """While an earlier message is held, so that the floor cannot move."""
    await stage.subscribe_topic(SHARED)
    await stage.publish(None, TTL, TTL, None)
    assert await stage.serials(limit=1) == [1]
    stage.clock.advance(LATER_SECONDS)
    assert await stage.serials(limit=1) == [4]


@pytest.mark.spec("LIVE-20")
async def test_who_waits_is_not_woken_for_nothing(stage: Stage) -> None:
    await stage.subscribe_topic()
    await stage.publish(TTL)
    stage.clock.advance(LATER_SECONDS)
    getting = asyncio.ensure_future(stage.get(wait=30))
    await until(lambda: stage.alone.node.subscriptions.waiting().get("acme"))
    await stage.publish(None)
    assert [article.message.serial for article in await getting] == [2]


@pytest.mark.spec("LIVE-20")
async def test_the_place_behind_what_expired_is_on_disk(stage: Stage) -> None:
    await stage.subscribe_topic()
    await stage.publish(TTL, TTL)
    stage.clock.advance(LATER_SECONDS)
    assert await stage.serials() == []
    await stage.alone.node.subscriptions.settle()
    (saved,) = await stage.alone.store.read_cursors("acme", "news")
    assert saved.floor == 2
    assert stage.notes.runs(ACKNOWLEDGED) == []
    assert stage.notes.runs(RECEIVED) == []


# -- dead letters ---------------------------------------------------------------------------------


@pytest.mark.spec("LIVE-20", "ONCE-03")
async def test_a_dead_letter_keeps_the_envelope_and_its_deadline(stage: Stage) -> None:
    await stage.subscribe_topic(SubscriptionOptions(max_deliveries=1))
    given = Attributes(
        author="ann", conversation_id="c", refers_to="m", ttl=10_000, headers={"k": [1]}
    )
    await stage.publish(given)
    (original,) = await stage.get()
    stage.clock.advance(LATER_SECONDS)
    assert await stage.get() == []
    letters = await _letters(stage)
    attributes = letters[0].attributes
    assert attributes is not None
    assert attributes.dead_letter_of == original.message.id
    kept = msgspec.structs.replace(attributes, headers={"k": [1]}, dead_letter_of=None)
    assert kept == msgspec.structs.replace(given, ttl=8_000)
    assert attributes.headers is not None
    assert attributes.headers["k"] == [1]
    assert attributes.headers["deadFrom"] == "news"


@pytest.mark.spec("LIVE-20")
async def test_what_expired_is_no_dead_letter(stage: Stage) -> None:
    await stage.subscribe_topic(SubscriptionOptions(max_deliveries=1))
    await stage.publish(TTL, None)
    assert await stage.serials(limit=1) == [1]
    stage.clock.advance(LATER_SECONDS)
    assert await stage.serials(limit=1) in ([], [2])
    await until(lambda: stage.alone.node.subscriptions.counters["acme"].expired == 1)
    assert stage.alone.node.subscriptions.counters["acme"].dead_letters == 0


async def _letters(stage: Stage) -> list[Message]:
    await until(lambda: stage.alone.node.subscriptions.counters["acme"].dead_letters)
    page = await stage.alone.store.read_after("acme", "news.dead", 0, 10)
    return list(page.messages)


# -- webhooks -------------------------------------------------------------------------------------


@pytest.mark.spec("LIVE-20", "WEB-04")
async def test_a_webhook_is_not_sent_what_expired(stage: Stage) -> None:
    async with Receiver(lambda _: 503) as receiver:
        webhook = await subscribe_webhook(stage.alone.node, receiver.url)
        await stage.publish(TTL, TTL, None)
        await receiver.got(1)
        stage.clock.advance(LATER_SECONDS)
        receiver.respond = lambda _: 200
        await until(lambda: receiver.messages[-1].headers["hubbub-serial"] == "3")
        await acknowledged(stage.alone.node, webhook, 3)
        assert {r.headers["hubbub-serial"] for r in receiver.messages} == {"1", "3"}
        assert stage.alone.node.subscriptions.counters["acme"].expired == 2
        assert stage.alone.node.driver.counters["acme"].dead_letters == 0
        assert stage.notes.runs(EXPIRED) == [(1, 1, 1), (2, 2, 1)]
        assert {e.subscription for e in stage.notes.events if e.kind == EXPIRED} == {webhook.id}


@pytest.mark.spec("WEB-04", "SEC-01")
async def test_nobody_can_forge_a_dead_letter(stage: Stage) -> None:
    """What a publisher puts beside the dead letters is not sent to the webhook as one of them."""
    async with Receiver(lambda _: 400) as receiver:
        webhook = await subscribe_webhook(stage.alone.node, receiver.url)
        await stage.publish(None)
        await until(lambda: stage.alone.node.driver.counters["acme"].dead_letters)
        forged = {
            "deadFrom": "news",
            "deadSerial": "x",
            "deadSubscription": webhook.id,
            "deadOwner": "webhook",
        }
        hub = stage.node.hub("acme")
        item = PublishItem(
            "news.dead", "e", b"666", JSON, attributes=Attributes(headers=forged, refers_to="m")
        )
        await stage.node.feature(Topics).put(hub, ANONYMOUS, item)
        receiver.respond = lambda _: 200
        receiver.received.clear()
        assert await stage.node.feature(Webhooks).replay(hub, webhook.id) == (1, 0)
        assert receiver.bodies == [b"1"]
