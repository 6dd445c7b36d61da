"""Subscribers with filters: what they get, what they are told about what they do not get, and what
it costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.engine import (
    Alone,
    Cluster,
    FakeConnection,
    NoticeEncoder,
    publish,
    receive,
    subscribe,
)
from harness.running_hub import OPEN, open_hub
from hubbub.domain.errors import HubbubError, NotFound, NotPermitted
from hubbub.domain.filters.definition import FilterDefinition
from hubbub.domain.filters.filters import Screen
from hubbub.domain.filters.view import MessageView
from hubbub.domain.messages import JSON, Attributes
from hubbub.domain.notices import (
    ChannelReset,
    Failed,
    FilterList,
    FilterSet,
    FilterUnset,
    HistoryPage,
    MessageDelivery,
    Occupancy,
    RestoreKey,
    SessionRestored,
)
from hubbub.domain.permissions import Grant, Identity
from hubbub.domain.requests import (
    History,
    ListFilters,
    Position,
    Publish,
    PublishItem,
    Restore,
    SetFilter,
    UnsetFilter,
    Unsubscribe,
)
from hubbub.engine.delivery import screening
from hubbub.engine.delivery.feed import Feed

pytestmark = pytest.mark.spec("CMD-06")

STORED = msgspec.structs.replace(OPEN, store=True, store_by_default=True, retain=True)
EVEN = {"eq": {"payload.even": True}}
ODD = {"eq": {"payload.even": False}}


@pytest.fixture
async def alone(tmp_path: Path) -> AsyncIterator[Alone]:
    async with Alone(tmp_path, hubs=[open_hub(rules=STORED)]) as alone:
        yield alone


def _number(number: int) -> bytes:
    return msgspec.json.encode({"n": number, "even": number % 2 == 0})


async def _set(
    connection: FakeConnection, condition: dict[str, Any], name: str = "f", channel: Any = None
) -> None:
    before = len(connection.all(FilterSet))
    definition = FilterDefinition(name, channel, condition=condition)
    receive(connection, SetFilter(definition, req_id=1))
    await connection.next(FilterSet, before + 1)


async def _unset(connection: FakeConnection, name: str = "f", channel: Any = None) -> int:
    before = len(connection.all(FilterUnset))
    receive(connection, UnsetFilter(name, channel, req_id=1))
    return (await connection.next(FilterUnset, before + 1)).count


async def _follow(
    alone: Alone, condition: dict[str, Any] | None = None, **position: Any
) -> FakeConnection:
    connection = alone.node.connect()
    if condition is not None:
        await _set(connection, condition)
    await subscribe(connection, "news", **position)
    return connection


async def _publish(alone: Alone, *numbers: int) -> None:
    """Returns when everybody has been written to."""
    publisher = alone.node.connect()
    witness = await _follow(alone)
    publish(publisher, "news", *map(_number, numbers))
    await witness.delivered("news", len(numbers))
    await _settled(alone)
    for connection in (publisher, witness):
        connection.close()


async def _settled(alone: Alone) -> None:
    while alone.node.node.hub("acme").delivery_queue.in_rotation:
        await asyncio.sleep(0)


def _heard(connection: FakeConnection) -> list[tuple[int, int | None]]:
    """Serials, each with what it is said to follow."""
    return [(each.message.serial, each.previous_serial) for each in connection.all(MessageDelivery)]


def _feed(alone: Alone) -> Feed:
    return alone.node.node.hub("acme").feeds["news"]


# -- live ---------------------------------------------------------------------------------------


async def test_a_delivery_after_skipped_ones_names_the_serial_before_them(alone: Alone) -> None:
    even, odd, all_of_them = [await _follow(alone, each) for each in (EVEN, ODD, None)]
    await _publish(alone, 1, 2, 3, 5, 6, 8)
    assert _heard(even) == [(2, 0), (5, 2), (6, None)]
    assert _heard(odd) == [(1, None), (3, 1), (4, None)]
    assert _heard(all_of_them) == [(n, None) for n in range(1, 7)]


async def test_subscribers_with_the_same_filters_share_evaluations_and_bytes(
    alone: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    passes = Screen.__init__

    def counted(self: Screen, filters: Any) -> None:
        passes(self, filters)
        real = self.passes

        def count(view: MessageView) -> bool:
            asked.append(view)
            return real(view)

        self.passes = count

    monkeypatch.setattr(Screen, "__init__", counted)
    conditions = [{"lt": {"payload.n": limit}} for limit in range(10)]
    followers = [await _follow(alone, conditions[n % 10]) for n in range(100)]
    await _publish(alone, 5, 6)
    assert len(_feed(alone).filtered) == 10
    assert len(asked) == 20
    assert len({id(view) for view in asked}) == 2
    assert [len(_heard(each)) for each in followers[:10]] == [0] * 6 + [1, 2, 2, 2]
    assert len({id(unit) for view in asked for unit in view.units.values()}) == sum(
        len(view.units) for view in asked[:1] + asked[-1:]
    )


async def test_a_channel_without_filters_makes_no_views(
    alone: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub.engine.delivery.audience.MessageView", None)
    follower = await _follow(alone)
    await _publish(alone, 1, 2)
    assert len(_heard(follower)) == 2


async def test_a_filter_for_a_channel_leaves_other_channels_alone(alone: Alone) -> None:
    follower = alone.node.connect()
    await _set(follower, EVEN, channel="news")
    await subscribe(follower, "news", "sports")
    publish(alone.node.connect(), "news", _number(1), _number(2))
    publish(alone.node.connect(), "sports", _number(1), _number(2))
    await follower.until(lambda: len(follower.all(MessageDelivery)) == 3)
    assert len(follower.deliveries("sports")) == 2


async def test_all_filters_must_pass(alone: Alone) -> None:
    follower = await _follow(alone, EVEN)
    await _set(follower, {"gt": {"payload.n": 3}}, "large", "news")
    await _publish(alone, 2, 3, 4, 5)
    assert _heard(follower) == [(3, 0)]


async def test_other_notices_pass_in_their_order(alone: Alone) -> None:
    follower = await _follow(alone, EVEN)
    feed = _feed(alone)
    follower.heard.clear()
    publish(alone.node.connect(), "news", _number(2), _number(1))
    await follower.delivered("news", 1)
    feed.say(Occupancy("news", 7))
    publish(alone.node.connect(), "news", _number(4))
    await follower.delivered("news", 2)
    assert [type(each) for each in follower.heard] == [MessageDelivery, Occupancy, MessageDelivery]
    assert _heard(follower) == [(1, None), (3, 1)]


async def test_messages_without_a_serial_are_filtered_and_skip_nothing(tmp_path: Path) -> None:
    rules = msgspec.structs.replace(STORED, store_by_default=False, live_history=False)
    async with Alone(tmp_path, hubs=[open_hub(rules=rules)]) as alone:
        follower = await _follow(alone, EVEN)
        publisher = alone.node.connect()
        publish(publisher, "news", _number(1), _number(2))
        publish(publisher, "news", _number(4), store=True)
        await follower.delivered("news", 2)
        assert _heard(follower) == [(0, None), (1, None)]


async def test_a_costly_filter_is_evaluated_in_slices_between_which_others_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screening, "SLICE_CHECKS", 2)
    async with Alone(tmp_path) as alone:
        follower = await _follow(alone, EVEN)
        publish(alone.node.connect(), "news", *[_number(2 * n) for n in range(10)])
        seen = []
        while len(_heard(follower)) < 10:
            await asyncio.sleep(0)
            seen.append(len(_heard(follower)))
        assert seen == [2, 4, 6, 8, 10]


async def test_a_stream_of_several_channels_is_filtered_in_slices_and_written_as_it_is_encoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screening, "SLICE_CHECKS", 2)
    async with Alone(tmp_path) as alone:
        stream, encoder = alone.node.connect(), NoticeEncoder()
        monkeypatch.setattr(encoder, "in_order", True)
        stream.encoder, stream._read = encoder, encoder.read
        await _set(stream, EVEN, channel="news")
        await subscribe(stream, "news", "other")
        publisher = alone.node.connect()
        seen = []
        for number in range(10):
            publish(publisher, "news", _number(2 * number))
            publish(publisher, "other", _number(number))
        _feed(alone).say(Occupancy("news", 7))
        while len(_heard(stream)) < 20:
            await asyncio.sleep(0)
            seen.append(len(_heard(stream)))
        await _settled(alone)
        assert len(seen) >= 5
        assert Occupancy("news", 7) in stream.heard
        assert [each for each in stream.heard if isinstance(each, MessageDelivery | Occupancy)] == [
            each for each in encoder._notices if isinstance(each, MessageDelivery | Occupancy)
        ]


async def test_decoding_large_payloads_takes_slices_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screening, "SLICE_CHECKS", 40)
    async with Alone(tmp_path) as alone:
        follower = await _follow(alone, EVEN)
        large = msgspec.json.encode({"even": True, "x": "x" * 3200})
        publish(alone.node.connect(), "news", *[large] * 5)
        seen = []
        while len(_heard(follower)) < 5:
            await asyncio.sleep(0)
            seen.append(len(_heard(follower)))
        assert seen == [1, 2, 3, 4, 5]


async def test_a_group_that_is_behind_with_its_filters_is_congested(alone: Alone) -> None:
    await _follow(alone, {"or": [{"eq": {"payload.even": n}} for n in range(500)]})
    (group,) = _feed(alone).filtered.values()
    message = await _message(alone, 2)
    for _ in range(200):
        group.offer(screening.Offer(MessageView(message, 0), "", None, set()))
    assert group.congested


async def test_a_filtered_group_that_passes_nothing_is_never_congested(alone: Alone) -> None:
    follower = await _follow(alone, {"boolean": False})
    await _publish(alone, *range(50))
    (group,) = _feed(alone).filtered.values()
    assert not group.congested
    assert (group._size, group.waits) == (0, False)
    assert _heard(follower) == []


async def test_waiting_offers_congest_a_group_like_units(alone: Alone) -> None:
    await _follow(alone, EVEN)
    (group,) = _feed(alone).filtered.values()
    message = msgspec.structs.replace(
        (await _message(alone, 2)), payload=b'{"even": true, "x": "' + b"x" * 300_000 + b'"}'
    )
    group.offer(screening.Offer(MessageView(message, 0), "", None, set()))
    assert group.congested
    group.settle()
    assert group.congested


async def _message(alone: Alone, number: int) -> Any:
    witness = await _follow(alone)
    publish(alone.node.connect(), "news", _number(number))
    await witness.delivered("news", 1)
    return witness.deliveries("news")[0]


# -- changing filters ---------------------------------------------------------------------------


async def test_a_filter_holds_for_what_is_published_after_its_confirmation(tmp_path: Path) -> None:
    async with Alone(tmp_path) as alone:
        follower = await _follow(alone)
        publisher = alone.node.connect()
        publish(publisher, "news", *map(_number, range(1, 6)))
        await _set(follower, EVEN)
        publish(publisher, "news", *map(_number, range(6, 10)))
        await follower.delivered("news", 7)
        told = [each for each in follower.heard if isinstance(each, MessageDelivery | FilterSet)]
        assert [type(each) for each in told] == [
            *[MessageDelivery] * 5,
            FilterSet,
            MessageDelivery,
            MessageDelivery,
        ]
        assert _heard(follower)[4:] == [(5, None), (6, None), (8, 6)]


async def test_what_was_skipped_before_a_change_is_named_after_it(alone: Alone) -> None:
    follower, other = await _follow(alone, EVEN), await _follow(alone)
    await _publish(alone, 2, 3, 5)
    await _unset(follower)
    await _publish(alone, 7, 9)
    assert _heard(follower) == [(1, None), (4, 1), (5, None)]
    assert [serial for serial, _ in _heard(other)] == [1, 2, 3, 4, 5]
    assert not _feed(alone).filtered
    await _set(follower, EVEN)
    await _publish(alone, 11, 12)
    await _set(follower, ODD)
    await _publish(alone, 13)
    assert _heard(follower)[3:] == [(7, 5), (8, None)]


async def test_a_change_delivers_what_was_waiting_first(alone: Alone) -> None:
    follower = await _follow(alone, EVEN)
    await _message(alone, 2)
    feed, session = _feed(alone), follower.session
    assert session is not None
    (group,) = feed.filtered.values()
    message = follower.deliveries("news")[0]
    group.offer(screening.Offer(MessageView(message, 0), "", None, set()))
    session.filters = session.filters.without("f")
    feed.rescreen(session, follower)
    assert len(follower.deliveries("news")) == 2
    assert not group.connections
    assert feed.subscribers == 2
    assert follower in feed.groups[follower.encoder].connections


async def test_filters_are_listed_replaced_and_refused(alone: Alone) -> None:
    client = alone.node.connect()
    await _set(client, EVEN, "a")
    await _set(client, ODD, "b", "news")
    await _set(client, {}, "a")
    receive(client, ListFilters(req_id=5), ListFilters("news", req_id=6), ListFilters("x"))
    await client.next(FilterList, 3)
    everything, of_news, of_other = client.all(FilterList)
    assert [(each.name, each.condition) for each in everything.filters] == [("a", {}), ("b", ODD)]
    assert [each.name for each in of_news.filters] == ["b"]
    assert of_other.filters == ()
    assert await _unset(client, "a") == 1
    receive(
        client,
        UnsetFilter("a", req_id=7),
        SetFilter(FilterDefinition("c", condition={"no": 1}), req_id=8),
        SetFilter(FilterDefinition("c"), req_id=9),
    )
    await client.next(Failed, 3)
    failures = [(each.req_id, each.error.code) for each in client.all(Failed)]
    assert failures == [(7, NotFound.code), (8, "invalid_filter"), (9, "incomplete_filter")]


async def test_a_filter_for_a_channel_needs_permission_for_it(tmp_path: Path) -> None:
    private = msgspec.structs.replace(STORED, public=False)
    async with Alone(tmp_path, hubs=[open_hub(rules=private)]) as alone:
        ann = Identity("ann", grants=(Grant("news", subscribe=True),))
        client = alone.node.connect(identity=ann)
        await _set(client, EVEN, channel="news")
        receive(client, SetFilter(FilterDefinition("f", "secret", condition={}), req_id=1))
        assert isinstance((await client.next(Failed)).error, NotPermitted)


# -- the past -----------------------------------------------------------------------------------


async def test_a_replay_is_filtered_and_goes_on_live_without_a_gap(alone: Alone) -> None:
    await _publish(alone, 1, 2, 3, 4, 5)
    follower = await _follow(alone, EVEN, serial=0)
    await follower.delivered("news", 2)
    await _publish(alone, 6, 7, 8)
    assert _heard(follower) == [(2, 0), (4, 2), (6, 4), (8, 6)]
    nothing = await _follow(alone, {"eq": {"payload.n": 100}}, serial=0)
    await _publish(alone, 100)
    assert _heard(nothing) == [(9, 0)]


async def test_a_retained_message_is_filtered(alone: Alone) -> None:
    witness = await _follow(alone)
    publish(alone.node.connect(), "news", _number(1), retain=True)
    await witness.delivered("news", 1)
    assert [each.retained for each in (await _follow(alone, ODD)).all(MessageDelivery)] == [True]
    assert (await _follow(alone, EVEN)).all(MessageDelivery) == []


async def _history(client: FakeConnection, **query: Any) -> HistoryPage:
    before = len(client.all(HistoryPage))
    receive(client, History("news", **query))
    return await client.next(HistoryPage, before + 1)


def _serials(page: HistoryPage) -> list[int]:
    return [message.serial for message in page.messages]


async def test_history_gives_as_many_as_were_asked_for_of_those_that_pass(
    alone: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub.engine.sessions.filtered_history.READ_AT_ONCE", 4)
    await _publish(alone, *range(1, 31))
    client = alone.node.connect()
    await _set(client, {"in": {"payload.n": [3, 6, 9, 12, 15, 18, 21, 24, 27, 30]}})
    newest = await _history(client, limit=3)
    assert (_serials(newest), newest.more, newest.next) == ([24, 27, 30], True, 24)
    before = await _history(client, before=newest.next, limit=100)
    assert (_serials(before), before.more, before.next) == ([3, 6, 9, 12, 15, 18, 21], False, None)
    after = await _history(client, after=4, limit=2, filter={"condition": EVEN})
    assert (_serials(after), after.more, after.next) == ([6, 12], True, 12)
    rest = await _history(client, after=12, filter={"condition": EVEN})
    assert (_serials(rest), rest.more) == ([18, 24, 30], False)
    failed = await _history(client, filter={"condition": {"no": 1}})
    assert failed.error is not None
    assert failed.error.code == "invalid_filter"


async def test_history_looks_at_a_bounded_number_of_messages_and_says_where_to_go_on(
    alone: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub.engine.sessions.filtered_history.READ_AT_ONCE", 5)
    monkeypatch.setattr("hubbub.engine.sessions.filtered_history.MOST_READ", 10)
    await _publish(alone, *range(1, 31))
    client = alone.node.connect()
    await _set(client, {"eq": {"payload.n": 29}})
    page = await _history(client, after=0)
    found, requests = _serials(page), 1
    while page.more:
        page = await _history(client, after=page.next)
        found += _serials(page)
        requests += 1
    assert (found, requests) == ([29], 3)


async def test_a_hub_screens_one_slice_in_a_turn_whoever_asks(
    alone: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screening, "SLICE_CHECKS", 2)
    await _publish(alone, *range(1, 31))
    screened = 0

    class Counted(Screen):
        __slots__ = ()

        def __init__(self, filters: Any) -> None:
            super().__init__(filters)
            evaluate = self.passes

            def counted(view: MessageView) -> bool:
                nonlocal screened
                screened += 1
                return evaluate(view)

            self.passes = counted

    monkeypatch.setattr("hubbub.domain.filters.filters.Screen", Counted)
    clients = [alone.node.connect() for _ in range(5)]
    pages = [asyncio.create_task(_history(c, filter={"condition": ODD})) for c in clients]
    turns = 0
    while not all(page.done() for page in pages):
        before = screened
        await asyncio.sleep(0)
        turns += screened > before
    assert screened == 5 * 30
    assert turns > 60  # of two messages, but for the first slices
    assert [len((await page).messages) for page in pages] == [15] * 5


# -- coming back --------------------------------------------------------------------------------

ANN = Identity("ann", grants=(Grant("*", publish=True, subscribe=True),))


@pytest.mark.spec("LIVE-15")
async def test_filters_come_back_with_a_restored_session(alone: Alone) -> None:
    await _comes_back(alone)


@pytest.mark.spec("LIVE-15")
async def test_filters_come_back_at_another_node(tmp_path: Path) -> None:
    async with Cluster(tmp_path, hubs=[open_hub(rules=STORED)]) as cluster:
        east, west = cluster.nodes["east"], cluster.nodes["west"]
        client = east.connect(identity=ANN)
        key = await client.next(RestoreKey)
        await _set(client, EVEN, channel="news")
        await subscribe(client, "news")
        client.error = HubbubError("the connection is gone")
        assert client.session is not None
        client.session.disconnected()
        await east.node.restore_keys.flush()
        publish(east.connect(identity=ANN), "news", _number(1), _number(2), _number(3))
        back = west.connect()
        receive(back, Restore(key.restore_key, positions=(Position("news", 0),)))
        await back.next(SessionRestored)
        await back.delivered("news", 1)
        assert _heard(back) == [(2, 0)]


async def _comes_back(alone: Alone) -> None:
    client = alone.node.connect(identity=ANN)
    key = await client.next(RestoreKey)
    await _set(client, EVEN)
    await _set(client, {"gt": {"payload.n": 2}}, "large", "news")
    await subscribe(client, "news")
    client.error = HubbubError("the connection is gone")
    assert client.session is not None
    client.session.disconnected()
    await _publish(alone, 1, 2, 3, 4)
    back = alone.node.connect()
    receive(back, Restore(key.restore_key))
    await back.delivered("news", 1)
    await _publish(alone, 5, 6)
    assert _heard(back) == [(4, 0), (6, 4)]
    receive(back, ListFilters())
    assert [each.name for each in (await back.next(FilterList)).filters] == ["f", "large"]


async def test_a_new_epoch_begins_without_skipped_messages(alone: Alone) -> None:
    follower = await _follow(alone, EVEN)
    await _publish(alone, 1)
    feed = _feed(alone)
    feed.reset("another", 5)
    await _settled(alone)
    (group,) = feed.filtered.values()
    assert group.skipped_after is None
    await follower.next(ChannelReset)


async def test_a_subscriber_with_filters_leaves_its_group(alone: Alone) -> None:
    follower, stays = await _follow(alone, EVEN), await _follow(alone, EVEN)
    receive(follower, Unsubscribe(("news",)))
    await _publish(alone, 2)
    assert _heard(follower) == []
    assert _heard(stays) == [(1, None)]
    receive(stays, Unsubscribe(("news",)))
    assert "news" not in alone.node.node.hub("acme").feeds


async def test_location_and_headers_are_filtered_as_published(alone: Alone) -> None:
    near = {"geo": {"lat": 48.85, "lng": 2.35, "radius": 1000}}
    follower = await _follow(alone, near)
    places = [{"lat": 48.851, "lng": 2.351}, {"lat": 49.0, "lng": 2.35}, None]
    items = [
        PublishItem("news", "e", b"1", JSON, attributes=Attributes(location=place, priority=1))
        for place in places
    ]
    receive(alone.node.connect(), Publish(tuple(items)))
    witness = await _follow(alone, serial=0)
    await witness.delivered("news", 3)
    await _settled(alone)
    assert _heard(follower) == [(1, None)]


@pytest.mark.spec("LIVE-15")
async def test_a_session_with_a_filter_that_is_no_longer_accepted_is_not_restored(
    alone: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = alone.node.connect(identity=ANN)
    key = await client.next(RestoreKey)
    with monkeypatch.context() as earlier:
        earlier.setattr("hubbub.domain.filters.conditions.MAX_DEPTH", 1000)
        await _set(client, {"eq": {"payload" + ".a" * 100: 1}})
    client.error = HubbubError("the connection is gone")
    assert client.session is not None
    client.session.disconnected()
    back = alone.node.connect()
    receive(back, Restore(key.restore_key))
    failed = await back.next(Failed)
    assert failed.error.code == "restore_failed"
    assert "has 100 names after payload" in failed.error.message
    assert len(alone.node.node.hub("acme").sessions) == 1
