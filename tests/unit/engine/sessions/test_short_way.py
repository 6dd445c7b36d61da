"""The short way of a plain message decides and delivers as the general way does, whatever changes
between two messages."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.engine import Alone, FakeConnection, LongWayBus, publish
from harness.running_hub import OPEN, open_hub
from hubbub.cluster.local import LocalBus
from hubbub.domain.errors import HubbubError
from hubbub.domain.filters.definition import FilterDefinition
from hubbub.domain.messages import JSON, Attributes
from hubbub.domain.notices import Failed, MessageDelivery, Notice, Published
from hubbub.domain.permissions import ANONYMOUS, Grant, Identity, Level
from hubbub.domain.requests import (
    Publish,
    PublishItem,
    SetFilter,
    Subscribe,
    SubscribeItem,
    UnsetFilter,
    Unsubscribe,
)
from hubbub.domain.rules import HubConfiguration, Quotas, Rules
from hubbub.engine.publishing import Publisher
from hubbub.ports.storage.administration import Revocation

START = 4_000_000_000.5
"""When every hub begins, since whether a token has expired depends on whole seconds."""
CHANNELS = ("news", "work", "kept:news")
ALL_RULES = (
    OPEN,
    OPEN,
    OPEN,
    Rules(public=True, allow_anonymous=True),
    msgspec.structs.replace(OPEN, retain=True, live_history=True),
    msgspec.structs.replace(OPEN, store=True),
    msgspec.structs.replace(OPEN, journal="off"),
    Rules(public=True, allow_anonymous=True),
    msgspec.structs.replace(OPEN, publish_hook="judge"),
)
QUOTAS = (Quotas(), Quotas(), Quotas(messages_per_second=8), Quotas(deliveries_per_second=6))
WEST = FilterDefinition("west", template={"payload": {"place": "west"}})
FLAGS: tuple[dict[str, Any], ...] = (
    *[{}] * 24, {"store": True}, {"retain": True}, {"push": True}, {"transient": True},
    {"attributes": Attributes(author="x")}, {"attributes": Attributes(sender="another")},
    {"idempotency_key": "once"}, {"idempotency_key": ""}, {"security_token": ""},
)  # fmt: skip

Step = Callable[["World"], Any]


class World:
    """A hub with two publishers and two subscribers, and what they were told."""

    def __init__(self, alone: Alone) -> None:
        self.alone = alone
        self.node = alone.node
        self.publishers = [self.node.connect() for _ in range(2)]
        self.subscribers = [self.node.connect() for _ in range(2)]
        self.gone: list[FakeConnection] = []
        self.asked = [0, 0]

    def publish(self, who: int, items: list[PublishItem]) -> None:
        self.publishers[who].say(Publish(tuple(items)))
        self.asked[who] += len(items)

    async def settle(self) -> None:
        """Until every publish is answered, and every delivery is written. Who was disconnected
        comes back."""
        async with asyncio.timeout(20):
            quiet = 0
            while quiet < 6:
                await asyncio.sleep(0)
                quiet = 0 if self._works() else quiet + 1
        for who, publisher in enumerate(self.publishers):
            if publisher.error is not None:
                self.gone.append(publisher)
                self.publishers[who], self.asked[who] = self.node.connect(), 0

    def _works(self) -> bool:
        sessions = [each.session for each in (*self.publishers, *self.subscribers)]
        feeds = self.node.node.hub("acme").feeds.values()
        return (
            any(map(self._waits, (0, 1)))
            or any(each is not None and each.busy for each in sessions)
            or any(feed._catching_up is not None or feed.users for feed in feeds)
        )

    def _waits(self, who: int) -> bool:
        publisher = self.publishers[who]
        answered = sum(len(told.results) for told in publisher.all(Published))
        return publisher.error is None and answered < self.asked[who]

    async def configure(self, configuration: HubConfiguration) -> None:
        await self.alone.change(configuration)

    def identify(self, who: int, identity: Identity) -> None:
        """`expires_at` counts from now."""
        if identity.expires_at is not None:
            until = int(self.alone.clock.now()) + identity.expires_at
            identity = msgspec.structs.replace(identity, expires_at=until)
        session = self.publishers[who].session
        assert session is not None
        session.hub.identify(session, identity)

    async def revoke(self, user: str, until: int, expires_at: int) -> None:
        await self.node.revocations.add(
            Revocation("acme", "user", user, int(self.alone.clock.now() * 1000) + until, expires_at)
        )

    def pass_time(self, seconds: float) -> None:
        self.alone.clock.advance(seconds)
        self.node.owner.sweep()

    def told(self) -> list[list[object]]:
        """Answers, and deliveries of each channel: between channels no order is promised."""
        parties = [*self.gone, *self.publishers, *self.subscribers]
        lists: list[list[object]] = []
        for party in parties:
            shapes = [shape for each in party.heard for shape in _shapes(each)]
            lists.append(
                [_code(party.error), *(each for each in shapes if each[0] not in CHANNELS)]
            )
            lists += [[each for each in shapes if each[0] == channel] for channel in CHANNELS]
        return lists


def _shapes(notice: Notice) -> Iterator[tuple[object, ...]]:
    """What is the same in two hubs: no ids, times and epochs."""
    if isinstance(notice, MessageDelivery):
        message = notice.message
        yield message.channel, message.payload, message.serial, notice.previous_serial
    elif isinstance(notice, Published):
        for result in notice.results:
            yield result.req_id, result.serial, result.duplicate, _code(result.error)
    elif isinstance(notice, Failed):
        yield "failed", _code(notice.error)


def _code(error: HubbubError | None) -> str | None:
    return None if error is None else error.code


def script(chance: random.Random, steps: int) -> Iterator[Step]:
    """The same for every hub."""
    rules, quotas, anonymous, number = OPEN, Quotas(), True, 0
    for _ in range(steps):
        kind = chance.random()
        if kind < 0.8:
            who, items = chance.randrange(2), []
            for _ in range(1 if chance.random() < 0.85 else 3):
                number += 1
                place = chance.choice(("east", "west"))
                payload = b'{"n":%d,"place":"%b"}' % (number, place.encode())
                if chance.random() < 0.02:
                    payload = b'"%b"' % (b"x" * 2000)
                channel = chance.choice(CHANNELS) if chance.random() < 0.3 else "news"
                items.append(
                    PublishItem(channel, "e", payload, JSON, req_id=number, **chance.choice(FLAGS))
                )
            yield lambda world, who=who, items=items: world.publish(who, items)  # type: ignore[misc]
        elif kind < 0.86:
            rules = chance.choice(ALL_RULES)
            quotas, anonymous = chance.choice(QUOTAS), chance.random() < 0.9
            changed = open_hub(
                "acme",
                rules,
                {"kept": msgspec.structs.replace(OPEN, store=True)},
                quotas=quotas,
                allow_anonymous=anonymous,
            )
            yield lambda world, changed=changed: world.configure(changed)  # type: ignore[misc]
        elif kind < 0.91:
            identity = chance.choice(
                (
                    ANONYMOUS,
                    Identity(user_id="ann"),
                    Identity(user_id="ann", grants=(Grant("work", publish=True),), expires_at=1),
                    Identity(user_id="bob", grants=(Grant("**", publish=True),)),
                    Identity(user_id="eve", level=Level.SERVICE, expires_at=4),
                    Identity(user_id="cat", grants=(Grant("news", publish=True),), expires_at=4),
                )
            )
            who = chance.randrange(2)
            yield lambda world, who=who, identity=identity: world.identify(who, identity)  # type: ignore[misc]
        elif kind < 0.92:
            user = chance.choice(("eve", "cat"))
            yield lambda world, user=user: world.revoke(user, 0, 2**52)  # type: ignore[misc]
        elif kind < 0.95:
            who, channels = chance.randrange(2), (chance.choice(CHANNELS),)
            wanted = tuple(SubscribeItem(channel) for channel in channels)
            request = Subscribe(wanted) if chance.random() < 0.6 else Unsubscribe(channels)
            yield lambda world, who=who, request=request: world.subscribers[who].say(request)  # type: ignore[misc]
        elif kind < 0.97:
            who = chance.randrange(2)
            change = SetFilter(WEST) if chance.random() < 0.5 else UnsetFilter("west")
            yield lambda world, who=who, change=change: world.subscribers[who].say(change)  # type: ignore[misc]
        else:
            seconds = chance.choice((0.01, 0.3, 2.0, 2.0, 120.0))  # channels close after a minute
            yield lambda world, seconds=seconds: world.pass_time(seconds)  # type: ignore[misc]


async def play(path: Path, bus: LocalBus, seed: int, steps: int) -> list[list[object]]:
    path.mkdir()
    limits: dict[str, Any] = {
        "message_bytes": 1000,
        "session_messages_per_second": 40.0,
        "session_burst": 20.0,
    }
    async with Alone(path, bus=bus, **limits) as alone:
        alone.clock.advance(START - alone.clock.now())
        world = World(alone)
        for each in world.subscribers:
            each.say(Subscribe((SubscribeItem("news"),)))
        for step in script(random.Random(seed), steps):
            done = step(world)
            if done is not None:
                await done
            alone.clock.advance(0.001)
            await world.settle()
        return world.told()


def count_short_ways(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Has one entry for each message that takes the short way."""
    taken: list[None] = []
    publish_live = Publisher.publish_live

    def counted(self: Publisher, *arguments: Any) -> Any:
        taken.append(None)
        return publish_live(self, *arguments)

    monkeypatch.setattr(Publisher, "publish_live", counted)
    return taken


async def compare(tmp_path: Path, seed: int, steps: int) -> int:
    """How many answers and deliveries both ways gave."""
    short = await play(tmp_path / f"short-{seed}", LocalBus(), seed, steps)
    general = await play(tmp_path / f"general-{seed}", LongWayBus(), seed, steps)
    for one, other in zip(short, general, strict=True):
        pairs = zip(one, other, strict=False)
        same = next((at for at, (left, right) in enumerate(pairs) if left != right), 3)
        assert one == other, (seed, one[same - 3 :][:8], other[same - 3 :][:8])
    return sum(len(each) for each in short)


@pytest.mark.spec("LIVE-10", "LIVE-12", "LIVE-16", "LIVE-21")
@pytest.mark.parametrize("seed", [1, 2])
async def test_both_ways_give_the_same_answers_and_deliveries_whatever_changes_in_between(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = count_short_ways(monkeypatch)
    assert await compare(tmp_path, seed, 500) > 500
    assert len(taken) > 30  # else the test compares nothing


@pytest.mark.long
@pytest.mark.spec("LIVE-10", "LIVE-16")
@pytest.mark.timeout(1800)
async def test_ten_thousand_random_interleavings_give_the_same_on_both_ways(tmp_path: Path) -> None:
    for seed in range(20):
        assert await compare(tmp_path, seed, 500) > 500


@pytest.mark.spec("LIVE-05", "LIVE-10")
@pytest.mark.parametrize("how", ["expires", "is revoked"])
async def test_the_short_way_ends_when_the_token_does(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = count_short_ways(monkeypatch)
    async with Alone(tmp_path) as alone:
        expires_at = int(alone.clock.now()) + 10
        publisher = alone.node.connect(identity=Identity(user_id="ann", expires_at=expires_at))
        for number in (1, 2, 3):
            publish(publisher, "news", b"1", req_id=number)
            await publisher.next(Published, number)
        assert len(taken) == 2  # the first message opens the channel
        if how == "expires":
            alone.clock.advance(20)
        else:
            now = int(alone.clock.now() * 1000)
            await alone.node.revocations.add(Revocation("acme", "user", "ann", now, 2**52))
        publish(publisher, "news", b"1", req_id=4)
        (result,) = (await publisher.next(Published, 4)).results
        assert _code(result.error) == "invalid_token"
