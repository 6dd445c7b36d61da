"""The Python client against a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pytest

from benchmarks.servers import free_port
from harness.restarting import RestartingHub
from harness.running_hub import RunningHub, StartHub, open_hub
from harness.scripted_hub import message, scripted_hub
from hubbub.client import (
    AccessLost,
    Client,
    ClientClosed,
    Connected,
    Disconnected,
    Gap,
    Item,
    Joined,
    Left,
    Message,
    MessagesLost,
    Occupancy,
    Options,
    Presence,
    QueueFull,
    Receipt,
    Subscription,
    Unreachable,
    connect,
)
from hubbub.client import sync as synchronous
from hubbub.client.client import Since
from hubbub.domain import requests
from hubbub.domain.errors import (
    BadRequest,
    Conflict,
    HubNotFound,
    InvalidName,
    InvalidToken,
    NotFound,
    NotPermitted,
    TooLarge,
)
from hubbub.domain.notices import Disconnect
from hubbub.domain.permissions import Grant
from hubbub.domain.rules import Rules

QUICK = Options(backoff_first=0.02, backoff_longest=0.05, connect_timeout=5)
STORED = Rules(public=True, client_publish=True, allow_anonymous=True, store=True)
ROOM = Rules(
    public=True,
    client_publish=True,
    allow_anonymous=True,
    presence=True,
    occupancy=True,
    retain=True,
    live_history=True,
)


def client_of(
    hub: RunningHub, token: str | None = None, options: Options = QUICK, name: str = "acme"
) -> Client:
    return connect(f"ws://{hub.address}", hub=name, token=token, options=options)


async def texts(subscription: Subscription, count: int) -> list[object]:
    async def read() -> list[object]:
        return [(await anext(subscription)).data for _ in range(count)]

    return await asyncio.wait_for(read(), 10)


def events_of(client: Client, *kinds: type) -> asyncio.Queue[object]:
    queue: asyncio.Queue[object] = asyncio.Queue()
    for kind in kinds:
        client.on(kind, queue.put_nowait)
    return queue


async def next_event(queue: asyncio.Queue[object]) -> object:
    return await asyncio.wait_for(queue.get(), 10)


def cut(hub: RunningHub, client: Client, name: str = "acme") -> None:
    """The network between the server and this client fails."""
    assert client.session is not None
    session = hub.server.node.hubs[name].sessions[client.session.session_id]
    session.connection.transport.abort()  # type: ignore[attr-defined]


# -- publish and subscribe ----------------------------------------------------------------------


@pytest.mark.spec("UI-02", "LIVE-01")
@pytest.mark.parametrize("encoding", ["protobuf", "json"])
async def test_json_texts_and_bytes_arrive_as_they_were_sent(
    hub: RunningHub, encoding: Literal["protobuf", "json"]
) -> None:
    options = Options(encoding=encoding)
    async with (
        client_of(hub, options=options) as reader,
        client_of(hub, hub.token("ann"), options) as writer,
        reader.subscribe("news") as news,
    ):
        for data in ({"degrees": 21}, "text ü", b"\x00\xff"):
            receipt = await writer.publish("news", data, "weather")
            message = await anext(news)
            assert message.data == data
            assert (message.id, message.serial) == (receipt.id, receipt.serial)
            assert (message.channel, message.event, message.publisher) == ("news", "weather", "ann")
            assert abs((datetime.now(UTC) - message.time).total_seconds()) < 60


@pytest.mark.spec("UI-02", "LIVE-08")
async def test_many_are_published_in_order_with_a_result_for_each(hub: RunningHub) -> None:
    async with client_of(hub) as client, client.subscribe("a") as subscription:
        results = await client.publish_many([Item("a", 1), Item("b*", 2), Item("a", 3)])
        assert [type(result) for result in results] == [Receipt, InvalidName, Receipt]
        client.publish_nowait("a", 4)
        assert await texts(subscription, 3) == [1, 3, 4]


@pytest.mark.spec("UI-02", "LIVE-08")
async def test_closing_sends_what_is_queued(hub: RunningHub) -> None:
    async with client_of(hub) as reader, reader.subscribe("a") as subscription:
        async with client_of(hub) as writer:
            for number in range(100):
                writer.publish_nowait("a", number)
        assert await texts(subscription, 100) == list(range(100))


@pytest.mark.spec("UI-02", "LIVE-17")
async def test_refusals_are_the_errors_of_the_catalogue(start_hub: StartHub) -> None:
    closed = Rules(allow_anonymous=True)
    hub = await start_hub(open_hub(namespaces={"closed": closed}))
    async with client_of(hub) as client:
        with pytest.raises(NotPermitted, match="closed:a"):
            await client.publish("closed:a", 1)
        with pytest.raises(NotPermitted, match="closed:a"):
            await client.subscribe("closed:a")
        with pytest.raises(NotPermitted, match="closed:a"):
            await anext(client.subscribe("closed:a", "open"))
        with pytest.raises(NotPermitted):
            await client.history("closed:a")
        with pytest.raises(NotFound):
            await client.presence("open")


@pytest.mark.spec("UI-02", "LIVE-16")
@pytest.mark.parametrize("encoding", ["protobuf", "json"])
async def test_a_message_that_is_too_large_is_never_sent_and_harms_no_other(
    start_hub: StartHub, encoding: Literal["protobuf", "json"]
) -> None:
    hub = await start_hub(open_hub(rules=STORED), connection__ws__maxMessageBytes=2048)
    options = Options(encoding=encoding)
    async with client_of(hub, options=options) as client, client.subscribe("a") as subscription:
        lost = events_of(client, Disconnected)
        assert client.session is not None
        assert client.session.max_message_bytes == 2048
        large = b"x" * 2040  # with its envelope it is larger than the hub takes
        other = client.subscribe("b")
        sent = [client.publish("a", "1"), client.publish("a", large), client.publish("a", "2")]
        results = await asyncio.gather(*sent, return_exceptions=True)
        refused = [each for each in results if isinstance(each, BaseException)]
        assert [type(each) for each in refused] == [TooLarge]
        assert "'a'" in str(refused[0])
        assert "at most 2048" in str(refused[0])
        client.publish_nowait("a", large)
        for request in (client.topics.put("t", large), client.call("m", large)):
            with pytest.raises(TooLarge):
                await request
        await other
        await client.publish("b", "3")
        assert await texts(other, 1) == ["3"]
        assert await texts(subscription, 2) == ["1", "2"]
        assert lost.empty()


@pytest.mark.spec("UI-02", "LIVE-16")
async def test_many_small_messages_go_in_frames_that_the_hub_takes(start_hub: StartHub) -> None:
    hub = await start_hub(
        open_hub(), connection__ws__maxMessageBytes=2048, session__messagesPerSecond=0
    )
    async with client_of(hub) as client, client.subscribe("a") as subscription:
        lost = events_of(client, Disconnected)
        receipts = await client.publish_many(Item("a", "x" * 900) for _ in range(50))
        assert all(isinstance(each, Receipt) for each in receipts)
        assert len(await texts(subscription, 50)) == 50
        assert lost.empty()


@pytest.mark.spec("UI-02", "LIVE-16")
async def test_the_limit_of_a_hub_that_does_not_tell_it_ends_no_subscription() -> None:
    """Such a hub ends the connection for what is too large: the publisher learns why, and a
    subscription that was about to be confirmed goes on over the next connection."""
    async with scripted_hub() as hub, connect(hub.url) as client:
        visitor = await hub.visitor()
        publishing = asyncio.ensure_future(client.publish("a", "too large for this hub"))
        await visitor.expect(requests.Publish)
        subscription = client.subscribe("b")
        await visitor.expect(requests.Subscribe)
        await visitor.say(Disconnect(TooLarge("the message is too large")))
        with pytest.raises(TooLarge):
            await publishing
        visitor = await hub.visitor()
        await visitor.confirm()
        await visitor.say(message(1, "b"))
        assert await texts(subscription, 1) == ["1"]


@pytest.mark.spec("UI-02")
async def test_what_has_no_form_on_the_wire_harms_no_other(hub: RunningHub) -> None:
    async with client_of(hub) as client, client.subscribe("a") as subscription:
        sent = [client.publish("a", "1"), client.publish("\ud800", "?"), client.publish("a", "2")]
        results = await asyncio.gather(*sent, return_exceptions=True)
        assert [type(each) for each in results] == [Receipt, BadRequest, Receipt]
        assert await texts(subscription, 2) == ["1", "2"]


@pytest.mark.spec("UI-02", "LIVE-08")
async def test_a_name_that_is_none_harms_no_other_subscription(hub: RunningHub) -> None:
    async with client_of(hub) as client:
        bad, good = client.subscribe("a\n"), client.subscribe("a")
        with pytest.raises(InvalidName):
            await bad
        await good
        with pytest.raises(Conflict, match="already"):
            client.subscribe("a")
        await client.publish("a", 1)
        assert await texts(good, 1) == [1]


@pytest.mark.spec("UI-02")
async def test_several_channels_in_one_subscription_and_a_handler(hub: RunningHub) -> None:
    heard: asyncio.Queue[object] = asyncio.Queue()

    async def handle(message: Message) -> None:
        if message.data == "bad":
            raise ValueError("a handler's own fault")
        heard.put_nowait((message.channel, message.data))

    async with client_of(hub) as client:
        await client.subscribe("a", "b", handler=handle)
        for channel, data in (("a", 1), ("b", "bad"), ("b", 2), ("c", 3), ("a", 4)):
            await client.publish(channel, data)
        assert [await next_event(heard) for _ in range(3)] == [("a", 1), ("b", 2), ("a", 4)]


@pytest.mark.spec("UI-02", "LIVE-08")
async def test_after_unsubscribing_nothing_comes_and_the_stream_ends(hub: RunningHub) -> None:
    async with client_of(hub) as client:
        subscription = await client.subscribe("a")
        await client.publish("a", 1)
        await subscription.unsubscribe()
        await client.publish("a", 2)
        assert [message.data async for message in subscription] == [1]
        assert await (await client.subscribe("a", since=1)).batch() != []


# -- since, gaps, history -----------------------------------------------------------------------


async def _filled(hub: RunningHub, channel: str = "a") -> tuple[str, float]:
    """Ten messages; answers the epoch and a moment after all of them."""
    async with client_of(hub) as client:
        await client.publish_many([Item(channel, number) for number in range(1, 11)])
        page = await client.history(channel)
        return page.epoch, page.messages[-1].published_at / 1000


@pytest.mark.spec("UI-02", "LIVE-12")
async def test_a_subscription_begins_where_it_is_told(hub: RunningHub) -> None:
    epoch, moment = await _filled(hub)
    starts: list[tuple[Since, list[int]]] = [
        (7, [8, 9, 10, 11]),
        ((epoch, 9), [10, 11]),
        (0, list(range(1, 12))),
        (datetime.fromtimestamp(moment + 0.001, UTC), [11]),
    ]
    clients = [await client_of(hub) for _ in starts]
    streams = [
        await client.subscribe("a", since=since)
        for client, (since, _) in zip(clients, starts, strict=True)
    ]
    await clients[0].publish("a", 11)
    for stream, (_, expected) in zip(streams, starts, strict=True):
        assert await texts(stream, len(expected)) == expected
    for client in clients:
        await client.close()


@pytest.mark.spec("UI-02", "LIVE-13")
async def test_a_gap_is_marked_on_the_next_message_or_raised(start_hub: StartHub) -> None:
    hub = await start_hub(engine__maxLiveHistorySize=4)
    await _filled(hub)
    async with client_of(hub) as client:
        gaps = events_of(client, Gap)
        marked = client.subscribe("a", since=2)
        message = await anext(marked)
        assert message.data == 7
        assert message.gap is not None
        assert message.gap.after == 2
        assert (await anext(marked)).gap is None
        assert await next_event(gaps) == message.gap
    async with client_of(hub) as client:
        raising = client.subscribe("a", since=2, on_gap="raise")
        with pytest.raises(MessagesLost) as lost:
            await anext(raising)
        assert lost.value.gap.channel == "a"
        assert await texts(raising, 4) == [7, 8, 9, 10]


@pytest.mark.spec("UI-02", "LIVE-13")
async def test_history_in_pages_and_as_a_whole(start_hub: StartHub) -> None:
    hub = await start_hub(channel__historyPageSize=4)
    await _filled(hub)
    async with client_of(hub) as client:
        newest = await client.history("a")
        assert [message.data for message in newest.messages] == [7, 8, 9, 10]
        assert (newest.head, newest.more, newest.recovered) == (10, True, True)
        before = await client.history("a", before=7, limit=2)
        assert [message.data for message in before.messages] == [5, 6]
        many = await client.history("a", before=10, limit=6)
        assert [message.data for message in many.messages] == [4, 5, 6, 7, 8, 9]
        assert (many.more, many.recovered) == (True, True)
        rest = await client.history("a", after=1, limit=100)
        assert [message.data for message in rest.messages] == list(range(2, 11))
        assert (rest.more, rest.recovered) == (False, True)
        whole = [message.data async for message in client.read_history("a")]
        assert whole == list(range(1, 11))
        lost = await client.history("a", after=2, epoch="another")
        assert not lost.recovered


# -- presence, retained -------------------------------------------------------------------------


@pytest.mark.spec("UI-02", "LIVE-12")
async def test_who_is_there_and_who_comes_and_goes(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=ROOM))
    async with client_of(hub, hub.token("ann")) as ann, ann.subscribe("room") as room:
        joins = events_of(ann, Joined)
        leaves = events_of(ann, Left)
        counts = events_of(ann, Occupancy)
        async with client_of(hub, hub.token("bob")) as bob, bob.subscribe("room"):
            while "bob" not in _names(room):
                await next_event(joins)
            assert {member.user_id for member in await bob.presence("room")} == {"ann", "bob"}
            while room.occupancy["room"] != 2:
                await next_event(counts)
        left = await next_event(leaves)
        assert isinstance(left, Left)
        assert left.members[0].user_id == "bob"
        assert _names(room) == {"ann"}
        kinds = [type(event) async for event in _first(room, 2)]
        assert kinds[0] is Presence


def _names(room: Subscription) -> set[str | None]:
    return {member.user_id for member in room.members.get("room", {}).values()}


async def _first(subscription: Subscription, count: int) -> AsyncIterator[object]:
    async for event in subscription.events():
        yield event
        count -= 1
        if not count:
            return


@pytest.mark.spec("UI-02", "LIVE-12")
async def test_a_retained_message_comes_once_even_across_connections(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=ROOM))
    async with client_of(hub) as client:
        await client.publish("a", "kept", retain=True)
        subscription = await client.subscribe("a")
        first = await anext(subscription)
        assert (first.data, first.retained) == ("kept", True)
        connected = events_of(client, Connected)
        cut(hub, client)
        await next_event(connected)
        await client.publish("a", "new")
        assert await texts(subscription, 1) == ["new"]


# -- lost connections ---------------------------------------------------------------------------


@pytest.mark.spec("UI-02", "LIVE-15")
async def test_a_lost_connection_is_restored_without_loss_or_doubles(hub: RunningHub) -> None:
    async with (
        client_of(hub, hub.token("ann")) as ann,
        client_of(hub) as writer,
        ann.subscribe("a", "b") as subscription,
    ):
        connected = events_of(ann, Connected)
        session = ann.session
        for number in range(30):
            if number % 10 == 5:
                cut(hub, ann)
            await writer.publish("ab"[number % 2], number)
            if number % 10 == 9:
                event = await next_event(connected)
                assert isinstance(event, Connected)
                assert event.restored
                assert ann.session == session
        received = [(await anext(subscription)) for _ in range(30)]
        for channel, first in (("a", 0), ("b", 1)):
            mine = [message.data for message in received if message.channel == channel]
            assert mine == list(range(first, 30, 2))
        await writer.publish("a", "last")
        assert await texts(subscription, 1) == ["last"]


@pytest.mark.spec("UI-02")
async def test_an_anonymous_session_goes_on_from_its_positions(hub: RunningHub) -> None:
    async with (
        client_of(hub) as reader,
        client_of(hub) as writer,
        reader.subscribe("a") as subscription,
    ):
        disconnected = events_of(reader, Disconnected)
        await writer.publish("a", 1)
        cut(hub, reader)
        await writer.publish("a", 2)
        event = await next_event(disconnected)
        assert isinstance(event, Disconnected)
        assert event.retry_in == 0
        await writer.publish("a", 3)
        assert await texts(subscription, 3) == [1, 2, 3]


@pytest.mark.spec("UI-02", "LIVE-15")
async def test_a_restarted_server_is_found_again(tmp_path: Path) -> None:
    """What is stored goes on without a gap, what is not says so, and what was published while
    the server was away arrives."""
    hubs = open_hub(namespaces={"log": STORED})
    async with RestartingHub(tmp_path, hubs, listener__port=free_port()) as life:
        hub = await life.restart()
        async with client_of(hub, hub.token("ann")) as client:
            log = await client.subscribe("log:a")
            live = await client.subscribe("live")
            assert (await client.publish("log:a", 1, store=True)).serial == 1
            await client.publish("live", 1)
            connected, lost = events_of(client, Connected), events_of(client, Disconnected)
            await life.stop()
            await next_event(lost)
            waiting = asyncio.create_task(client.publish("log:a", 2, store=True))
            client.publish_nowait("live", 2)
            while client.queued < 2:
                await asyncio.sleep(0)
            await life.restart()
            event = await next_event(connected)
            assert isinstance(event, Connected)
            assert event.restored
            assert (await waiting).serial == 2
            assert await texts(log, 2) == [1, 2]
            first, second = await anext(live), await anext(live)
            assert [first.data, second.data] == [1, 2]
            assert second.gap is not None


@pytest.mark.spec("UI-02")
async def test_the_offline_queue_is_bounded(tmp_path: Path) -> None:
    async with RestartingHub(tmp_path, listener__port=free_port()) as life:
        hub = await life.restart()
        options = Options(backoff_first=0.02, backoff_longest=0.05, max_queued=2)
        async with client_of(hub, options=options) as client:
            subscription = await client.subscribe("a")
            connected, lost = events_of(client, Connected), events_of(client, Disconnected)
            await life.stop()
            await next_event(lost)
            client.publish_nowait("a", 1)
            client.publish_nowait("a", 2)
            with pytest.raises(QueueFull, match="2 messages wait"):
                await client.publish("a", 3)
            await life.restart()
            await next_event(connected)
            assert await texts(subscription, 2) == [1, 2]
            await client.publish("a", 3)


@pytest.mark.spec("UI-02")
async def test_nobody_at_the_address(tmp_path: Path) -> None:
    port = free_port()
    url = f"ws://127.0.0.1:{port}"
    with pytest.raises(Unreachable, match="connection refused"):
        await connect(url, hub="acme")
    offline = Options(start_offline=True, backoff_first=0.02, backoff_longest=0.05)
    async with (
        RestartingHub(tmp_path, listener__port=port) as life,
        connect(url, hub="acme", options=offline) as client,
    ):
        subscription = client.subscribe("a")
        page = asyncio.create_task(client.history("a"))
        await life.restart()
        await subscription
        await client.publish("a", 1)
        assert await texts(subscription, 1) == [1]
        assert (await page).messages == ()


# -- identity -----------------------------------------------------------------------------------


@pytest.mark.spec("UI-02", "LIVE-17")
async def test_a_refused_client_does_not_try_again(hub: RunningHub) -> None:
    with pytest.raises(HubNotFound):
        await client_of(hub, hub.token(hub="nix"), name="nix")
    with pytest.raises(InvalidToken):
        await client_of(hub, "forged")


@pytest.mark.spec("UI-02", "LIVE-05")
async def test_another_identity_without_a_new_connection(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=Rules(allow_anonymous=True)))
    may = hub.token("ann", grants=(Grant("a", publish=True, subscribe=True),))
    async with client_of(hub) as client:
        with pytest.raises(NotPermitted):
            await client.subscribe("a")
        with pytest.raises(InvalidToken):
            await client.authenticate(token="forged")
        answer = await client.authenticate(token=may)
        assert answer.user_id == "ann"
        assert client.session is not None
        assert client.session.user_id == "ann"
        subscription = await client.subscribe("a")
        await client.publish("a", 1)
        revoked = events_of(client, AccessLost)
        await client.authenticate(token=hub.token("bob"))
        event = await next_event(revoked)
        assert isinstance(event, AccessLost)
        assert event.channel == "a"
        assert await texts(subscription, 1) == [1]
        with pytest.raises(NotPermitted):
            await anext(subscription)


@pytest.mark.spec("UI-02", "LIVE-05")
async def test_a_token_that_can_be_renewed_outlives_its_expiry(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(allow_anonymous=False, session_restore=False))
    asked = 0

    async def token() -> str:
        nonlocal asked
        asked += 1
        return hub.token("ann")

    client = connect(f"ws://{hub.address}", hub="acme", token=token, options=QUICK)
    async with client, client.subscribe("a") as subscription:
        connected = events_of(client, Connected)
        assert client.session is not None
        session = hub.server.node.hubs["acme"].sessions[client.session.session_id]
        session.connection.disconnect(InvalidToken("the token has expired"))
        await next_event(connected)
        assert asked == 2
        await client.publish("a", 1)
        assert await texts(subscription, 1) == [1]


@pytest.mark.spec("UI-02", "LIVE-17")
async def test_a_client_that_is_sent_away_for_good_says_why(hub: RunningHub) -> None:
    async with client_of(hub) as client, client.subscribe("a") as subscription:
        assert client.session is not None
        session = hub.server.node.hubs["acme"].sessions[client.session.session_id]
        session.connection.disconnect(NotPermitted("you were thrown out"))
        with pytest.raises(NotPermitted, match="thrown out"):
            await asyncio.wait_for(anext(subscription), 5)
        with pytest.raises(ClientClosed, match="thrown out"):
            await client.publish("a", 1)
        with pytest.raises(ClientClosed):
            client.subscribe("b")


# -- slow applications --------------------------------------------------------------------------


@pytest.mark.spec("UI-02", "LIVE-16")
async def test_a_slow_application_catches_up_from_history(start_hub: StartHub) -> None:
    hub = await start_hub(session__messagesPerSecond=0)
    options = Options(subscription_queue=10, slow_seconds=0.01)
    async with client_of(hub, options=options) as reader, client_of(hub) as writer:
        slow = await reader.subscribe("slow")
        other = await reader.subscribe("other")
        for _ in range(4):
            await writer.publish_many([Item("slow", number) for number in range(50)])
        await writer.publish("other", "not held up")
        assert await texts(other, 1) == ["not held up"]
        assert await texts(slow, 200) == [*range(50)] * 4


@pytest.mark.spec("UI-02", "LIVE-16")
async def test_what_a_slow_application_missed_for_good_is_a_gap(start_hub: StartHub) -> None:
    hub = await start_hub(session__messagesPerSecond=0, engine__maxLiveHistorySize=5)
    options = Options(subscription_queue=10, slow_seconds=0.001)
    async with client_of(hub, options=options) as reader, client_of(hub) as writer:
        slow, other = await reader.subscribe("slow"), await reader.subscribe("other")
        for number in range(1, 101):
            await writer.publish("slow", number)
        await writer.publish("other", 1)
        await anext(other)
        messages = [await anext(slow)]
        while messages[-1].serial < 100:
            messages.append(await asyncio.wait_for(anext(slow), 5))
        assert any(message.gap is not None for message in messages)
        serials = [message.serial for message in messages]
        assert serials == sorted(set(serials))


# -- without asyncio ----------------------------------------------------------------------------


@pytest.mark.spec("UI-02")
async def test_the_client_without_asyncio(hub: RunningHub) -> None:
    def program() -> list[object]:
        with synchronous.connect(f"ws://{hub.address}", hub="acme") as client:
            assert client.connected
            subscription = client.subscribe("a")
            assert client.publish("a", 1).serial == 1
            client.publish_many([Item("a", 2), Item("a", 3)])
            received = [next(subscription).data for _ in range(3)]
            assert len(client.history("a").messages) == 3
            with pytest.raises(NotFound):
                client.presence("a")
            subscription.unsubscribe()
            assert list(subscription) == []
            return received

    assert await asyncio.to_thread(program) == [1, 2, 3]


@pytest.mark.spec("UI-02")
async def test_the_client_without_asyncio_says_that_nobody_is_there() -> None:
    port = free_port()
    with pytest.raises(Unreachable):
        await asyncio.to_thread(synchronous.connect, f"ws://127.0.0.1:{port}")
