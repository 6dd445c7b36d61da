"""Subscriptions to patterns: what matches, what comes into being, what may be read, and bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.engine import Alone, FakeConnection, publish, receive
from harness.running_hub import OPEN, open_hub
from hubbub.domain.notices import (
    Failed,
    MessageDelivery,
    Occupancy,
    Presence,
    Subscribed,
    Unsubscribed,
)
from hubbub.domain.permissions import Grant, Identity, Level
from hubbub.domain.requests import Subscribe, SubscribeItem, Unsubscribe
from hubbub.domain.rules import ChannelSettings, HubConfiguration, Rules
from hubbub.ports.bus import Attach, MembersQuery, OccupancyQuery
from hubbub.ports.storage.administration import Revocation

pytestmark = pytest.mark.spec("LIVE-19")

STORED = msgspec.structs.replace(OPEN, store=True, retain=True)


async def follow(
    connection: FakeConnection, *patterns: str, channels: Iterable[SubscribeItem] = (), **f: Any
) -> Subscribed:
    """The answer to a subscription to patterns."""
    wanted = (*channels, *(SubscribeItem(pattern, **f) for pattern in patterns))
    req_id = 1 + sum(each.req_id > 0 for each in connection.all(Subscribed))
    receive(connection, Subscribe(wanted, req_id=req_id))
    await connection.until(
        lambda: any(each.req_id == req_id for each in connection.all(Subscribed))
    )
    return next(each for each in connection.all(Subscribed) if each.req_id == req_id)


def heard(connection: FakeConnection, channel: str) -> list[bytes]:
    return [message.payload for message in connection.deliveries(channel)]


def told_of(connection: FakeConnection) -> dict[str, int]:
    """The channels that were confirmed, and the serial of each."""
    return {c.channel: c.serial for each in connection.all(Subscribed) for c in each.channels}


async def settle(alone: Alone) -> None:
    """Until nothing is under way."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_channels_that_come_into_being_are_delivered_from_their_first_message_on(
    tmp_path: Path,
) -> None:
    async with Alone(tmp_path) as alone:
        listener, speaker = alone.node.connect(), alone.node.connect()
        answer = await follow(listener, "room:#")
        assert [each.pattern for each in answer.patterns] == ["room:#"]
        assert (answer.patterns[0].matches, answer.patterns[0].recovered) == (0, True)
        for channel in ("room:1", "room:2", "room:1:side", "lobby"):
            publish(speaker, channel, b"1", b"2")
        await listener.delivered("room:2", 2)
        assert heard(listener, "room:1") == heard(listener, "room:2") == [b"1", b"2"]
        assert not heard(listener, "room:1:side")
        assert not heard(listener, "lobby")
        assert told_of(listener) == {"room:1": 0, "room:2": 0}
        first = listener.heard.index(listener.all(MessageDelivery)[0])
        confirmed = listener.heard.index(listener.all(Subscribed)[1])
        assert confirmed < first, "a position comes before what follows it"


async def test_channels_that_are_there_are_confirmed_with_their_positions(tmp_path: Path) -> None:
    async with Alone(tmp_path) as alone:
        speaker = alone.node.connect()
        for number in range(3):
            publish(speaker, f"room:{number}", *[b"0"] * number)
        publish(speaker, "room:1", b"1")
        listener = alone.node.connect()
        answer = await follow(listener, "room:*")
        assert answer.patterns[0].matches == 2  # nobody said anything in room:0
        await listener.until(lambda: told_of(listener) == {"room:1": 2, "room:2": 2})
        publish(speaker, "room:1", b"live")
        await listener.delivered("room:1", 1)
        assert heard(listener, "room:1") == [b"live"]


async def test_a_message_comes_once_however_many_subscriptions_match(tmp_path: Path) -> None:
    async with Alone(tmp_path) as alone:
        listener, speaker = alone.node.connect(), alone.node.connect()
        await follow(listener, "room:*", "*", "room:#", channels=[SubscribeItem("room:1")])
        publish(speaker, "room:1", b"1")
        publish(speaker, "room:2", b"2")
        await listener.delivered("room:2", 1)
        await settle(alone)
        assert heard(listener, "room:1") == [b"1"]
        assert heard(listener, "room:2") == [b"2"]


async def test_patterns_and_names_end_independently_of_each_other(tmp_path: Path) -> None:
    async with Alone(tmp_path) as alone:
        listener, speaker = alone.node.connect(), alone.node.connect()
        await follow(listener, "room:*", "*:1", channels=[SubscribeItem("room:1")])
        publish(speaker, "room:2", b"a")
        await listener.delivered("room:2", 1)
        receive(listener, Unsubscribe(("room:1", "room:2"), req_id=7))
        ended = await listener.next(Unsubscribed)
        assert ended.channels == ("room:1",)
        assert [each.channel for each in ended.failures] == ["room:2"]
        publish(speaker, "room:1", b"by pattern")
        await listener.delivered("room:1", 1)
        receive(listener, Unsubscribe(("room:*", "other:*"), req_id=8))
        ended = await listener.next(Unsubscribed, 2)
        assert ended.channels == ("room:*",)
        assert [each.channel for each in ended.failures] == ["other:*"]
        publish(speaker, "room:1", b"by the other one")
        publish(speaker, "room:2", b"to nobody")
        await listener.delivered("room:1", 2)
        receive(listener, Unsubscribe(("*:1",), req_id=9))
        await listener.next(Unsubscribed, 3)
        publish(speaker, "room:1", b"to nobody")
        publish(speaker, "new:1", b"to nobody")
        await settle(alone)
        assert heard(listener, "room:1") == [b"by pattern", b"by the other one"]
        assert heard(listener, "room:2") == [b"a"]
        assert not heard(listener, "new:1")
        hub = alone.node.node.hub("acme")
        assert hub.patterns is None
        assert not hub.feeds


async def test_a_subscription_by_name_takes_over_from_the_pattern_and_counts(
    tmp_path: Path,
) -> None:
    """By a pattern, nobody is present and nobody is counted."""
    rules = msgspec.structs.replace(OPEN, presence=True, occupancy=True)
    async with Alone(tmp_path, hubs=[open_hub(rules=rules)]) as alone:
        watcher, guest = alone.node.connect(), alone.node.connect()
        await follow(watcher, "room:*")
        receive(guest, Subscribe((SubscribeItem("room:1"),), req_id=1))
        present = await guest.next(Presence)
        assert guest.session is not None
        assert watcher.session is not None
        assert [each.session_id for each in present.members] == [guest.session.id]
        assert (await guest.next(Occupancy)).count == 1
        receive(watcher, Subscribe((SubscribeItem("room:1"),), req_id=5))
        both = {guest.session.id, watcher.session.id}
        state = await watcher.next(Presence)
        assert {each.session_id for each in state.members} == both
        receive(watcher, Unsubscribe(("room:1",), req_id=6))
        await watcher.next(Unsubscribed)
        assert len(await alone.node.bus.ask(MembersQuery("acme", "room:1"))) == 1
        assert await alone.node.bus.ask(OccupancyQuery("acme", "room:1")) == 1
        publish(guest, "room:1", b"1")
        await watcher.delivered("room:1", 1)


HUB = HubConfiguration(
    "acme",
    msgspec.structs.replace(open_hub().settings, default_rules="closed", user_channel=True),
    {"open": OPEN, "closed": Rules()},
    {"room": "open"},
    {"room:staff": ChannelSettings("closed")},
)


async def test_a_private_channel_never_leaks_through_a_pattern(tmp_path: Path) -> None:
    boss = Identity("boss", grants=(Grant("*", publish=True, subscribe=True),))
    async with Alone(tmp_path, hubs=[HUB]) as alone:
        speaker, insider = alone.node.connect(identity=boss), alone.node.connect(identity=boss)
        publish(speaker, "room:staff", b"old")
        outsider = alone.node.connect()
        await follow(outsider, "room:*")
        await follow(insider, "room:*")
        publish(speaker, "room:staff", b"secret")
        publish(speaker, "room:open", b"public")
        await insider.delivered("room:staff", 1)
        await outsider.delivered("room:open", 1)
        assert not heard(outsider, "room:staff")
        assert "room:staff" not in told_of(outsider)
        for pattern in ("*", "team:*", "roo*", "u:*"):
            answer = await follow(outsider, pattern)
            assert [(each.channel, each.error.code) for each in answer.failures] == [
                (pattern, "not_permitted")
            ]
            assert repr(pattern) in answer.failures[0].error.message


async def test_users_channels_stay_their_own(tmp_path: Path) -> None:
    boss = Identity("boss", grants=(Grant("*", publish=True, subscribe=True),))
    async with Alone(tmp_path, hubs=[HUB]) as alone:
        speaker = alone.node.connect(identity=boss)
        nosy = alone.node.connect(identity=Identity("nosy", grants=(Grant("*", subscribe=True),)))
        await follow(nosy, "*")
        for channel in ("notification:u:ann", "notification:u:nosy"):
            alone.node.owner.channels.use("acme", channel)
        await nosy.until(lambda: "notification:u:nosy" in told_of(nosy))
        assert "notification:u:ann" not in told_of(nosy)
        publish(speaker, "any", b"1")
        await nosy.delivered("any", 1)


async def test_access_that_is_taken_away_ends_matches_and_patterns(tmp_path: Path) -> None:
    async with Alone(tmp_path, hubs=[HUB]) as alone:
        boss = Identity("boss", grants=(Grant("*", publish=True, subscribe=True),))
        listener, speaker = alone.node.connect(), alone.node.connect(identity=boss)
        await follow(listener, "room:*")
        publish(speaker, "room:1", b"1")
        publish(speaker, "room:2", b"1")
        await listener.delivered("room:2", 1)
        closed = msgspec.structs.replace(
            HUB, channels={**HUB.channels, "room:1": ChannelSettings("closed")}
        )
        await alone.change(closed)
        lost = await listener.next(Unsubscribed)
        assert [(each.channel, each.error.code) for each in lost.failures] == [
            ("room:1", "not_permitted")
        ]
        publish(speaker, "room:1", b"secret")
        publish(speaker, "room:2", b"2")
        await listener.delivered("room:2", 2)
        assert heard(listener, "room:1") == [b"1"]
        await alone.change(msgspec.structs.replace(closed, namespaces={}))
        await listener.until(lambda: len(listener.all(Unsubscribed)) >= 2)
        ended = {each.channel for n in listener.all(Unsubscribed)[1:] for each in n.failures}
        assert ended >= {"room:*"}
        await settle(alone)
        publish(speaker, "room:2", b"secret")
        publish(speaker, "room:3", b"secret")
        await settle(alone)
        assert heard(listener, "room:2") == [b"1", b"2"]
        assert not heard(listener, "room:3")
        assert listener.session is not None
        assert not listener.session.patterns
        assert not listener.session.matched


async def test_a_channel_that_is_opened_up_is_followed_from_then_on(tmp_path: Path) -> None:
    boss = Identity("boss", grants=(Grant("*", publish=True, subscribe=True),))
    async with Alone(tmp_path, hubs=[HUB]) as alone:
        listener, speaker = alone.node.connect(), alone.node.connect(identity=boss)
        await follow(listener, "room:*")
        publish(speaker, "room:staff", b"secret")
        await alone.change(msgspec.structs.replace(HUB, channels={}))
        await listener.until(lambda: told_of(listener) == {"room:staff": 1})
        publish(speaker, "room:staff", b"public")
        await listener.delivered("room:staff", 1)
        assert heard(listener, "room:staff") == [b"public"]


async def test_a_revoked_token_ends_the_patterns_with_the_session(tmp_path: Path) -> None:
    async with Alone(tmp_path, hubs=[HUB]) as alone:
        node = alone.node
        ann = Identity("ann", token_id="t1", grants=(Grant("team:*", True, True),))
        listener, speaker = (
            node.connect(identity=ann),
            node.connect(identity=Identity("bob", grants=(Grant("team:*", True, True),))),
        )
        await follow(listener, "team:*")
        until = int(alone.clock.now() * 1000) + 60_000
        await node.revocations.add(Revocation("acme", "token", "t1", 0, until))
        node.node.hub_changed("acme")
        publish(speaker, "team:1", b"secret")
        await settle(alone)
        assert listener.error is not None
        assert listener.error.code == "invalid_token"
        assert not heard(listener, "team:1")
        assert node.node.hub("acme").patterns is None


async def test_an_idle_channel_goes_and_is_followed_again_when_it_comes_back(
    tmp_path: Path,
) -> None:
    async with Alone(tmp_path, channel_idle_seconds=10) as alone:
        listener, speaker = alone.node.connect(), alone.node.connect()
        await follow(listener, "room:*")
        publish(speaker, "room:1", b"1")
        await listener.delivered("room:1", 1)
        alone.clock.advance(5)
        publish(speaker, "room:1", b"2")
        await listener.delivered("room:1", 2)
        alone.clock.advance(8)
        assert alone.node.owner.channels.close_idle(10) == 0, "it was used 8 seconds ago"
        alone.clock.advance(8)
        assert alone.node.owner.channels.close_idle(10) == 1
        assert (await listener.next(Unsubscribed)).channels == ("room:1",)
        assert not alone.node.node.hub("acme").feeds
        publish(speaker, "room:1", b"3")
        await listener.delivered("room:1", 3)
        assert heard(listener, "room:1") == [b"1", b"2", b"3"]
        assert told_of(listener) == {"room:1": 0}


async def test_who_follows_a_channel_by_name_keeps_it_open_for_patterns(tmp_path: Path) -> None:
    async with Alone(tmp_path) as alone:
        listener, guest = alone.node.connect(), alone.node.connect()
        await follow(listener, "room:*")
        receive(guest, Subscribe((SubscribeItem("room:1"),), req_id=1))
        await guest.next(Subscribed)
        await listener.until(lambda: "room:1" in told_of(listener))
        alone.clock.advance(1000)
        assert alone.node.owner.channels.close_idle(10) == 0
        receive(guest, Unsubscribe(("room:1",), req_id=2))
        await guest.next(Unsubscribed)
        alone.clock.advance(1000)
        assert alone.node.owner.channels.close_idle(10) == 1
        assert (await listener.next(Unsubscribed)).channels == ("room:1",)


async def test_a_match_brings_the_retained_message_and_recovery_is_by_channel(
    tmp_path: Path,
) -> None:
    async with Alone(tmp_path, hubs=[open_hub(rules=STORED)]) as alone:
        speaker = alone.node.connect()
        for channel in ("kept:1", "kept:2", "kept:3"):
            publish(speaker, channel, b"1", b"2", b"3", store=True, req_id=1)
        publish(speaker, "kept:1", b"now", retain=True, req_id=1)
        await speaker.until(lambda: len(speaker.heard) >= 5)
        listener = alone.node.connect()
        epoch = (await alone.node.bus.ask(Attach("acme", "kept:2"))).epoch
        position = SubscribeItem("kept:2", serial=1, epoch=epoch, by_pattern=True)
        await follow(listener, "kept:*", channels=[position])
        await listener.until(lambda: len(told_of(listener)) == 3)
        await settle(alone)
        assert heard(listener, "kept:1") == [b"now"]
        assert heard(listener, "kept:2") == [b"2", b"3"]
        assert heard(listener, "kept:3") == []
        publish(speaker, "kept:2", b"4", store=True)
        await listener.delivered("kept:2", 3)
        receive(listener, Unsubscribe(("kept:*",), req_id=3))
        await listener.next(Unsubscribed)
        assert listener.session is not None
        assert not listener.session.feeds, "a position by pattern ends with the pattern"


async def test_what_is_not_in_a_position_is_recovered_by_time(tmp_path: Path) -> None:
    async with Alone(tmp_path, channel_idle_seconds=10) as alone:
        speaker = alone.node.connect()
        publish(speaker, "room:1", b"before")
        alone.clock.advance(1)
        since = int(alone.clock.now() * 1000)
        alone.clock.advance(1)
        publish(speaker, "room:1", b"missed")
        publish(speaker, "room:2", b"born meanwhile")
        listener = alone.node.connect()
        answer = await follow(listener, "room:*", timestamp=since)
        assert answer.patterns[0].recovered
        await listener.delivered("room:2", 1)
        assert heard(listener, "room:1") == [b"missed"]
        assert heard(listener, "room:2") == [b"born meanwhile"]
        alone.clock.advance(100)
        assert alone.node.owner.channels.close_idle(10) == 2
        late = alone.node.connect()
        answer = await follow(late, "room:*", timestamp=since)
        assert not answer.patterns[0].recovered, "a channel may have come and gone since"


@pytest.mark.parametrize(
    ("wanted", "code", "words"),
    [
        (SubscribeItem("a" * 300 + "*"), "invalid_name", "at most 255"),
        (SubscribeItem("room:\n*"), "invalid_name", "'\\n'"),
        (SubscribeItem("room:*", serial=3), "bad_request", "`timestamp`"),
        (SubscribeItem("room:1", by_pattern=True), "not_permitted", "no pattern of this session"),
    ],
)
async def test_bad_patterns_are_refused_by_name(
    tmp_path: Path, wanted: SubscribeItem, code: str, words: str
) -> None:
    async with Alone(tmp_path) as alone:
        listener = alone.node.connect()
        receive(listener, Subscribe((wanted, SubscribeItem("fine:*")), req_id=1))
        answer = await listener.next(Subscribed)
        assert [each.error.code for each in answer.failures] == [code]
        assert words in answer.failures[0].error.message
        assert [each.pattern for each in answer.patterns] == ["fine:*"]


async def test_the_number_of_patterns_and_of_matches_is_bounded(tmp_path: Path) -> None:
    limits: Any = {
        "session_patterns": 2,
        "session_matches": 3,
        "hub_patterns": 3,
        "hub_matches": 5,
    }
    async with Alone(tmp_path, **limits) as alone:
        listener, speaker = alone.node.connect(), alone.node.connect()
        answer = await follow(listener, "a:*", "b:*", "c:*")
        assert [each.channel for each in answer.failures] == ["c:*"]
        assert "session.maxPatterns" in answer.failures[0].error.message
        answer = await follow(alone.node.connect(), "c:*", "d:*")
        assert "hub.maxPatterns" in answer.failures[0].error.message
        for number in range(5):
            publish(speaker, f"a:{number}", b"1")
        await settle(alone)
        assert sorted(told_of(listener)) == ["a:0", "a:1", "a:2"]
        (left_out,) = [f for each in listener.all(Subscribed)[1:] for f in each.failures]
        assert (left_out.channel, left_out.error.code) == ("a:3", "too_many_matches")
        assert "session.maxMatches" in left_out.error.message
        other = alone.node.connect()
        answer = await follow(other, "a:*")
        assert answer.failures[0].error.code == "too_many_matches"
        assert "'a:*' matches more than 3 channels" in answer.failures[0].error.message
        assert alone.node.node.hub("acme").patterns is not None
        assert other.session is not None
        assert not other.session.patterns
        for session in (third := alone.node.connect(), alone.node.connect()):
            await follow(session, "b:*")
        publish(speaker, "b:1", b"1")
        await third.delivered("b:1", 1)
        hub = alone.node.node.hub("acme")
        assert hub.patterns is not None
        assert hub.patterns.joined == 5
        publish(speaker, "b:2", b"1")
        await settle(alone)
        told = [f.error.message for each in third.all(Subscribed) for f in each.failures]
        assert told == [] or "hub.maxMatches" in told[0]


@pytest.mark.spec("SEC-01")
async def test_who_was_told_that_there_is_no_room_costs_new_channels_nothing(
    tmp_path: Path,
) -> None:
    async with Alone(tmp_path, session_matches=1) as alone:
        listeners, speaker = [alone.node.connect() for _ in range(3)], alone.node.connect()
        for listener in listeners:
            await follow(listener, "a:*")
        bounds = alone.node.node.subscriptions.patterns.bounds
        looked: list[str] = []
        check_match = bounds.check_match

        def noting(session: Any, channel: str, planned: int = 0) -> None:
            looked.append(channel)
            check_match(session, channel, planned)

        bounds.check_match = noting  # type: ignore[method-assign]
        for number in range(4):
            publish(speaker, f"a:{number}", b"1")
        await settle(alone)
        assert looked == ["a:0"] * 3 + ["a:1"] * 3
        for listener in listeners:
            told = [each.channel for said in listener.all(Subscribed) for each in said.failures]
            assert (sorted(told_of(listener)), told) == (["a:0"], ["a:1"])


@pytest.mark.spec("SEC-01")
async def test_a_pattern_that_is_named_often_is_asked_for_once(tmp_path: Path) -> None:
    async with Alone(tmp_path) as alone:
        first = SubscribeItem("b:*", timestamp=1)
        answer = await follow(alone.node.connect(), *["a:*", "b:*"] * 100, channels=[first])
        assert [each.pattern for each in answer.patterns] == ["b:*", "a:*"]
        assert not answer.failures


@pytest.mark.spec("SEC-01")
async def test_one_client_uses_up_a_share_of_the_hubs_patterns_and_matches(tmp_path: Path) -> None:
    limits: Any = {"session_patterns": 10, "hub_patterns": 48, "hub_matches": 60}
    ann, service = Identity(user_id="ann"), Identity(user_id="ann", level=Level.SERVICE)
    async with Alone(tmp_path, **limits) as alone:
        node = alone.node
        first, second = node.connect(identity=ann), node.connect(identity=ann)
        assert not (await follow(first, *(f"a{number}:*" for number in range(10)))).failures
        answer = await follow(second, "a0:*", "a10:*", "a11:*", "a12:*")
        (refused,) = answer.failures
        assert (refused.channel, refused.error.code) == ("a12:*", "too_many_matches")
        assert "12 different patterns of the 48" in refused.error.message
        others = (
            node.connect(identity=Identity(user_id="bob")),
            node.connect(),
            node.connect(identity=service),
        )
        for other in others:
            assert not (await follow(other, "a12:*")).failures
            assert not (await follow(other, f"{id(other)}:*")).failures
        receive(first, Unsubscribe(("a1:*",), req_id=2))
        await first.next(Unsubscribed)
        assert not (await follow(second, "a13:*")).failures
        speaker = node.connect()
        for number in range(20):
            publish(speaker, f"a0:{number}", b"1")
        await settle(alone)
        hub = node.node.hub("acme")
        assert hub.patterns is not None
        assert hub.patterns.joined == 15  # a quarter of 60, by both sessions together
        (left_out,) = [f for each in second.all(Subscribed)[2:] for f in each.failures]
        assert "the sessions of a client 15" in left_out.error.message
        for each in (first, second, *others):
            assert each.session is not None
            each.session.disconnected()
        assert (hub.patterns is None) or not (hub.patterns.held or hub.patterns.joined_by)


async def test_many_matches_are_confirmed_page_by_page(tmp_path: Path) -> None:
    async with Alone(tmp_path) as alone:
        speaker = alone.node.connect()
        for number in range(450):
            publish(speaker, f"room:{number}", b"1")
        listener = alone.node.connect()
        answer = await follow(listener, "room:*")
        assert answer.patterns[0].matches == 450
        await listener.until(lambda: len(told_of(listener)) == 450)
        assert [len(each.channels) for each in listener.all(Subscribed)] == [200, 200, 50, 0]
        assert not listener.all(Failed)
        for number in range(450):
            publish(speaker, f"room:{number}", b"2")
        await listener.delivered("room:449", 1)
