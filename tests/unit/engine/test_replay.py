"""Who comes back gets what it missed, once, from whichever node; or hears that it is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from harness.engine import Alone, FakeConnection
from harness.feeds import Following, ScriptedOwner, heard, published
from hubbub.domain.errors import Unavailable
from hubbub.domain.notices import Subscribed, SubscribedChannel
from hubbub.domain.requests import Subscribe, SubscribeItem

pytestmark = pytest.mark.spec("LIVE-10", "CLU-04")


@pytest.fixture
async def following(tmp_path: Path) -> AsyncIterator[Following]:
    """Somebody follows, so that the node has a feed, which is at #8 when its owner is at #10."""
    async with Alone(tmp_path) as alone:
        owner = ScriptedOwner(alone)
        owner.head = 8
        subscriber = await alone.node.subscribe("news")
        owner.head = 10
        yield Following(alone, owner, subscriber)


def come_back(
    to: Following, serial: int, epoch: str = "one", reads: asyncio.Event | None = None
) -> FakeConnection:
    """`reads`: it does not read what it missed until this is set."""
    connection = to.alone.node.connect()
    if reads is not None:
        connection.drain = reads.wait  # type: ignore[assignment, method-assign]
    wanted = SubscribeItem("news", serial=serial, epoch=epoch)
    connection.say(Subscribe((wanted,)))
    return connection


async def confirmed(to: FakeConnection) -> SubscribedChannel:
    (channel,) = (await to.next(Subscribed)).channels
    return channel


async def test_who_is_ahead_of_the_node_gets_nothing_twice_when_there_is_news(
    following: Following,
) -> None:
    """They got #9 and #10 again: the feed brought what it had not passed on yet."""
    following.owner.head = 11
    client = come_back(following, 10)
    assert (await confirmed(client)).recovered
    await client.until(lambda: heard(client)[-1:] == [11])
    following.feed.receive(published(12))
    await client.until(lambda: heard(client)[-1:] == [12])
    assert heard(client) == [11, 12]
    assert following.heard() == [9, 10, 11, 12], "and those who were here get everything"


async def test_who_is_ahead_of_the_node_gets_nothing_twice_when_there_is_none(
    following: Following,
) -> None:
    client = come_back(following, 10)
    assert (await confirmed(client)).recovered
    following.feed.receive(published(11))
    await client.until(lambda: heard(client)[-1:] == [11])
    assert heard(client) == [11]


async def test_who_is_ahead_of_a_node_that_cannot_catch_up_is_told_to_try_again(
    following: Following,
) -> None:
    """They heard of a gap in a stored channel, and got what they had."""
    owner = following.owner
    owner.delay = asyncio.Event()
    client = come_back(following, 10)
    await owner.was_asked()
    owner.away = True
    owner.delay.set()
    answer = await client.next(Subscribed)
    assert answer.channels == ()
    assert isinstance(answer.failures[0].error, Unavailable)
    assert answer.failures[0].error.retry


async def test_who_is_behind_while_the_owner_cannot_be_asked_is_sent_away_without_a_gap(
    following: Following,
) -> None:
    """They heard of a gap, also where nothing was lost."""
    owner, reading = following.owner, asyncio.Event()
    client = come_back(following, 7, reads=reading)
    assert (await confirmed(client)).recovered
    following.feed.receive(published(9))
    owner.away = True
    reading.set()
    await client.until(lambda: client.error)
    assert isinstance(client.error, Unavailable)
    assert heard(client) == [8]


async def test_who_comes_from_an_epoch_that_the_node_has_not_heard_of_goes_on_in_it(
    following: Following,
) -> None:
    """They were told that they had recovered, in an epoch that is over."""
    following.owner.epoch, following.owner.head = "two", 3
    client = come_back(following, 2, "two")
    channel = await confirmed(client)
    assert (channel.epoch, channel.recovered) == ("two", True)
    await client.until(lambda: heard(client)[-1:] == [3])
    following.feed.receive(published(4, "two"))
    await client.until(lambda: heard(client)[-1:] == [4])
    assert heard(client) == [3, 4]


async def test_who_is_in_an_epoch_that_ends_meanwhile_hears_of_it(following: Following) -> None:
    """The answer about the old epoch was on its way when the feed began the new one."""
    owner, late = following.owner, asyncio.Event()
    owner.delay = late
    client = come_back(following, 8)
    await owner.was_asked()
    owner.delay = None
    owner.epoch, owner.head = "two", 1
    following.feed.receive(published(1, "two"))
    assert (await following.settle(1))[-2:] == ["two@0", 1]
    late.set()
    channel = await confirmed(client)
    assert (channel.epoch, channel.serial, channel.recovered) == ("two", 1, False)
    following.feed.receive(published(2, "two"))
    await client.until(lambda: heard(client)[-1:] == [2])
    assert heard(client) == [2]


async def test_an_epoch_that_ends_while_a_client_reads_what_it_missed_is_announced(
    following: Following,
) -> None:
    """They went on in the new epoch without a word, and took its serials for those of the old."""
    owner, reading = following.owner, asyncio.Event()
    client = come_back(following, 7, reads=reading)
    assert (await confirmed(client)).recovered
    owner.epoch, owner.head = "two", 1
    following.feed.receive(published(1, "two"))
    await following.settle(1)
    reading.set()
    following.feed.receive(published(2, "two"))
    owner.head = 2
    await client.until(lambda: heard(client)[-1:] in (["two@1"], ["two@2"], [2]))
    following.feed.receive(published(3, "two"))
    await client.until(lambda: heard(client)[-1:] == [3])
    assert [what for what in heard(client) if isinstance(what, str)], heard(client)


async def test_who_cannot_be_recovered_gets_all_that_follows_the_confirmed_serial(
    following: Following,
) -> None:
    """They missed what lay between the node's place and the owner's."""
    following.owner.oldest = 10
    client = come_back(following, 3)
    channel = await confirmed(client)
    assert (channel.serial, channel.recovered) == (8, False)
    following.feed.receive(published(9))
    await client.until(lambda: heard(client)[-1:] == [9])
    assert heard(client) == [9]
