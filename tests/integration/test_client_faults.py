"""The Python client on bad days: a hub that dies, forgets, skips and leaves without a word."""

from __future__ import annotations

import asyncio

import pytest

from harness.scripted_hub import ScriptedHub, Visitor, message, scripted_hub
from hubbub.client import (
    Client,
    ClientClosed,
    ConnectionLost,
    Disconnected,
    Options,
    Subscription,
    Unreachable,
    connect,
)
from hubbub.domain import notices, requests
from hubbub.domain.errors import (
    GoingAway,
    HeartbeatTimeout,
    HubbubError,
    Malformed,
    NotPermitted,
    Overloaded,
    RequestTimeout,
    RestoreFailed,
    SessionReplaced,
    StoreUnavailable,
    VersionMismatch,
)

QUICK = Options(backoff_first=0.01, backoff_longest=0.02, request_timeout=5)


async def subscribed(hub: ScriptedHub, client: Client) -> tuple[Visitor, Subscription]:
    subscription = client.subscribe("news")
    visitor = await hub.visitor()
    await visitor.confirm()
    await subscription
    return visitor, subscription


async def serials(subscription: Subscription, count: int) -> list[int]:
    async def read() -> list[int]:
        return [(await anext(subscription)).serial for _ in range(count)]

    return await asyncio.wait_for(read(), 5)


def ends_of(client: Client) -> asyncio.Queue[Disconnected]:
    queue: asyncio.Queue[Disconnected] = asyncio.Queue()
    client.on(Disconnected, queue.put_nowait)
    return queue


@pytest.mark.spec("UI-02", "LIVE-04")
async def test_a_hub_that_says_nothing_any_more_is_left() -> None:
    options = Options(heartbeat_interval=0.02, heartbeat_timeout=0.02)
    async with scripted_hub() as hub, connect(hub.url, options=options) as client:
        ends = ends_of(client)
        visitor = await hub.visitor()
        await visitor.expect(requests.Ping)
        ended = await asyncio.wait_for(ends.get(), 5)
        assert isinstance(ended.error, HeartbeatTimeout)
        await hub.visitor()


@pytest.mark.spec("UI-02", "LIVE-04")
async def test_a_ping_is_answered() -> None:
    async with scripted_hub() as hub, connect(hub.url, options=QUICK):
        visitor = await hub.visitor()
        await visitor.say(notices.Ping(7))
        assert (await visitor.expect(requests.Pong)).req_id == 7


@pytest.mark.spec("UI-02", "LIVE-10")
async def test_a_message_that_is_skipped_is_fetched() -> None:
    async with scripted_hub() as hub, connect(hub.url, options=QUICK) as client:
        visitor, subscription = await subscribed(hub, client)
        await visitor.say(message(1), message(3), message(4))
        asked = await visitor.confirm(4)
        assert isinstance(asked, requests.Subscribe)
        assert (asked.channels[0].serial, asked.channels[0].epoch) == (1, "e1")
        await visitor.say(*(message(number) for number in (2, 3, 4, 5)))
        assert await serials(subscription, 5) == [1, 2, 3, 4, 5]


@pytest.mark.spec("UI-02", "LIVE-13")
async def test_a_channel_that_was_reset_goes_on_after_a_gap() -> None:
    async with scripted_hub() as hub, connect(hub.url, options=QUICK) as client:
        visitor, subscription = await subscribed(hub, client)
        await visitor.say(message(1), notices.ChannelReset("news", "e2", 7), message(8))
        assert (await anext(subscription)).gap is None
        behind = await anext(subscription)
        assert (behind.serial, behind.gap and behind.gap.after) == (8, 1)


@pytest.mark.spec("UI-02", "LIVE-15")
async def test_a_session_is_restored_with_its_key_and_positions() -> None:
    async with scripted_hub() as hub, connect(hub.url, options=QUICK) as client:
        visitor, subscription = await subscribed(hub, client)
        await visitor.say(notices.RestoreKey("first"), message(1))
        assert await serials(subscription, 1) == [1]
        visitor.cut()
        again = await hub.visitor()
        restore = await again.expect(requests.Restore)
        assert restore.restore_key == "first"
        assert restore.positions == (requests.Position("news", 1, "e1"),)
        channels = (notices.SubscribedChannel("news", "e1", 2),)
        await again.say(
            notices.SessionRestored("s0", "ann", (), (), {}, channels, (), restore.req_id),
            notices.RestoreKey("second"),
            message(2),
        )
        await again.expect(requests.Ping)  # spends the first key
        assert await serials(subscription, 1) == [2]
        again.cut()
        third = await (await hub.visitor()).expect(requests.Restore)
        assert third.restore_key == "second"


@pytest.mark.spec("UI-02", "LIVE-15")
async def test_a_key_that_is_refused_falls_back_to_the_token() -> None:
    async with scripted_hub() as hub:
        client = connect(hub.url, token="signed", options=QUICK)
        connecting = asyncio.create_task(client.__aenter__())
        visitor = await hub.visitor()
        await _let_in(visitor)
        await connecting
        await visitor.say(notices.RestoreKey("old"))
        subscription = client.subscribe("news")
        await visitor.confirm()
        await subscription
        visitor.cut()
        again = await hub.visitor()
        restore = await again.expect(requests.Restore)
        await again.say(notices.Failed(RestoreFailed("spent"), restore.req_id))
        await _let_in(again)
        asked = await again.confirm(5)
        assert isinstance(asked, requests.Subscribe)
        assert asked.channels[0].serial == 0
        again.cut()
        await _let_in(await hub.visitor())  # and without a key it is not tried again
        await client.close()


async def _let_in(visitor: Visitor) -> None:
    request = await visitor.expect(requests.Authenticate)
    assert request.token == "signed"
    await visitor.say(notices.Authenticated(request.req_id, user_id="ann"))


@pytest.mark.spec("UI-02", "LIVE-08")
async def test_a_publish_without_an_answer_may_have_arrived() -> None:
    async with scripted_hub() as hub, connect(hub.url, options=QUICK) as client:
        visitor = await hub.visitor()
        publish = asyncio.create_task(client.publish("news", "maybe"))
        await visitor.expect(requests.Publish)
        visitor.cut()
        with pytest.raises(ConnectionLost, match="connection was lost"):
            await publish
        again = await hub.visitor()
        later = asyncio.create_task(client.publish("news", "surely"))
        request = await again.expect(requests.Publish)
        assert [item.payload for item in request.items] == [b"surely"]  # not sent twice
        req_id = request.items[0].req_id
        assert req_id is not None
        await again.say(notices.Published((notices.PublishResult(req_id, "m1", 1),)))
        assert (await later).serial == 1


@pytest.mark.spec("UI-02", "LIVE-17")
@pytest.mark.parametrize(
    ("error", "comes_back"),
    [
        (GoingAway("restarting"), True),
        (Overloaded("full"), True),
        (Malformed("nonsense"), False),
        (SessionReplaced("elsewhere"), False),
    ],
)
async def test_the_hub_decides_who_comes_back(error: HubbubError, comes_back: bool) -> None:
    async with scripted_hub() as hub, connect(hub.url, options=QUICK) as client:
        ends = ends_of(client)
        visitor, subscription = await subscribed(hub, client)
        await visitor.say(notices.Disconnect(error))
        visitor.cut()
        ended = await asyncio.wait_for(ends.get(), 5)
        assert type(ended.error) is type(error)
        if comes_back:
            await (await hub.visitor()).confirm()
            return
        assert ended.retry_in is None
        with pytest.raises(type(error)):
            await anext(subscription)
        with pytest.raises(ClientClosed):
            await client.history("news")


@pytest.mark.spec("UI-02")
async def test_a_refusal_that_passes_is_tried_again_and_another_ends_it() -> None:
    async with scripted_hub() as hub, connect(hub.url, options=QUICK) as client:
        visitor, subscription = await subscribed(hub, client)
        for error in (StoreUnavailable("a moment"), NotPermitted("no more")):
            visitor.cut()
            visitor = await hub.visitor()
            request = await visitor.expect(requests.Subscribe)
            failure = notices.ChannelFailure("news", error)
            await visitor.say(notices.Subscribed((), (failure,), request.req_id))
            if error.retry:
                visitor = await hub.visitor()
                await visitor.confirm()
        with pytest.raises(NotPermitted):
            await asyncio.wait_for(anext(subscription), 5)


@pytest.mark.spec("UI-02")
async def test_a_question_is_asked_again_on_the_next_connection() -> None:
    async with scripted_hub() as hub, connect(hub.url, options=QUICK) as client:
        visitor = await hub.visitor()
        page = asyncio.create_task(client.history("news"))
        await visitor.expect(requests.History)
        visitor.cut()
        again = await hub.visitor()
        request = await again.expect(requests.History)
        await again.say(notices.HistoryPage("news", epoch="e1", head=3, req_id=request.req_id))
        assert (await page).head == 3


@pytest.mark.spec("UI-02")
async def test_a_question_without_an_answer_ends_in_a_timeout() -> None:
    options = Options(request_timeout=0.02)
    async with scripted_hub() as hub, connect(hub.url, options=options) as client:
        await hub.visitor()
        with pytest.raises(RequestTimeout):
            await client.presence("news")


@pytest.mark.spec("UI-02")
async def test_a_hub_that_never_greets_is_given_up() -> None:
    async def read_only(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1000):
            pass
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(read_only, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(Unreachable, match="timed out"):
            await connect(f"ws://127.0.0.1:{port}", options=Options(connect_timeout=0.05))


async def test_garbage_from_a_hub_ends_the_client_with_an_error() -> None:
    async with scripted_hub() as hub, connect(hub.url, options=QUICK) as client:
        visitor, subscription = await subscribed(hub, client)
        await visitor._connection.send(b"\xff\xff\xff")
        with pytest.raises(Malformed):
            await asyncio.wait_for(anext(subscription), 5)


async def test_cancelling_a_reader_leaves_the_subscription_in_order() -> None:
    async with scripted_hub() as hub, connect(hub.url, options=QUICK) as client:
        visitor, subscription = await subscribed(hub, client)
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(subscription), 0.001)
        await visitor.say(message(1), message(2))
        assert await serials(subscription, 2) == [1, 2]


@pytest.mark.parametrize("refusal", [None, VersionMismatch("changed since")])
async def test_only_a_change_that_was_surely_not_stored_leaves_its_number_to_the_next(
    refusal: VersionMismatch | None,
) -> None:
    """A cancelled change may be stored: the next one is the first of another producer."""
    async with scripted_hub() as hub, connect(hub.url, options=QUICK) as client:
        visitor = await hub.visitor()
        document = client.document("doc:plan")

        async def change() -> tuple[asyncio.Task[object], requests.ChangeDocument]:
            task = asyncio.ensure_future(document.patch({"op": "add", "path": "/a", "value": 1}))
            return task, await visitor.expect(requests.ChangeDocument)

        task, first = await change()
        if refusal is None:
            task.cancel()
        else:
            await visitor.say(notices.Failed(refusal, first.req_id or 0))
        await asyncio.gather(task, return_exceptions=True)
        task, second = await change()
        task.cancel()
        assert first.producer is not None
        assert second.producer is not None
        assert (second.producer == first.producer) is (refusal is not None)
        assert second.producer.sequence == 1
