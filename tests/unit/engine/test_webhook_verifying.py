"""Verification of intent, and topics that are fetched: WebSub without its door."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.engine import EngineNode
from harness.receivers import ANSWER_SECONDS, Received, Receiver, Reply, whole_answer
from harness.webhooks import FAST, engine, put, until
from hubbub.domain.errors import BadRequest, NotPermitted
from hubbub.domain.names import partition_of
from hubbub.domain.permissions import ANONYMOUS
from hubbub.domain.webhooks import (
    Mode,
    WantedWebhook,
    Webhook,
    WebTopic,
    verify_signature,
    websub_channel,
)
from hubbub.engine.hub import Hub
from hubbub.engine.webhooks.service import Webhooks

TOPIC = "http://a.example/feed"
CHANNEL = websub_channel(TOPIC)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[EngineNode]:
    async with engine(tmp_path) as node:
        yield node


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as receiver:
        yield receiver


def hub_of(node: EngineNode) -> Hub:
    return node.node.hub("acme")


async def ask(
    node: EngineNode, callback: str, mode: Mode = "subscribe", **more: Any
) -> Webhook | None:
    fields = {"topic": TOPIC, "hub_url": "http://hub.example/websub", **more}
    request = WantedWebhook("websub", fields.pop("channel", CHANNEL), callback, **fields)
    return await node.node.feature(Webhooks).request_verified(
        hub_of(node), ANONYMOUS, request, mode
    )


async def webhooks(node: EngineNode) -> list[Webhook]:
    return await node.node.feature(Webhooks).list(hub_of(node))


async def settled(node: EngineNode) -> list[Webhook]:
    """Wait until nothing is pending; answers what there is."""
    async with asyncio.timeout(ANSWER_SECONDS):
        while True:
            found = await webhooks(node)
            if not any(webhook.pending for webhook in found):
                return found
            await asyncio.sleep(0.01)


# -- verification ---------------------------------------------------------------------------------


@pytest.mark.spec("WEB-03")
async def test_a_subscription_holds_once_its_callback_confirmed_it(
    node: EngineNode, receiver: Receiver
) -> None:
    asked = await ask(node, f"{receiver.url}/x?own=1", secret=b"s", algorithm="sha1")
    assert asked is not None
    (webhook,) = await settled(node)
    (question,) = receiver.received
    assert question.method == "GET"
    assert question.target.startswith("/x?own=1&hub.mode=subscribe&")
    assert question.query["hub.topic"] == TOPIC
    assert question.query["hub.lease_seconds"] == "864000"
    assert len(question.query["hub.challenge"]) >= 32
    assert webhook.state == "active"
    assert webhook.expires_at is not None
    await put(node, b"<feed/>", channel=CHANNEL)
    (message,) = await receiver.got(1)
    assert message.target == "/x?own=1"
    assert verify_signature(b"s", message.headers["x-hub-signature"], b"<feed/>")
    assert message.headers["x-hub-signature"].startswith("sha1=")
    links = '<http://hub.example/websub>; rel="hub", <http://a.example/feed>; rel="self"'
    assert message.headers["link"] == links


@pytest.mark.spec("WEB-03")
async def test_what_is_published_before_the_confirmation_is_not_sent(
    node: EngineNode, receiver: Receiver
) -> None:
    confirm = asyncio.Event()

    async def later(request: Received) -> Reply:
        await confirm.wait()
        return whole_answer(200, request.query.get("hub.challenge", "").encode())

    receiver.respond = later
    await ask(node, receiver.url)
    await receiver.until(lambda: receiver.received)
    await put(node, b"before", channel=CHANNEL)
    confirm.set()
    await settled(node)
    await put(node, b"after", channel=CHANNEL)
    await receiver.got(1)
    assert receiver.bodies == [b"after"]


@pytest.mark.spec("WEB-03")
@pytest.mark.parametrize(
    "reply", [404, 200, 302, whole_answer(200, b"wrong"), whole_answer(200, b"x" * 100_000), 503]
)
async def test_what_is_not_confirmed_does_not_hold(
    node: EngineNode, receiver: Receiver, reply: Reply
) -> None:
    receiver.respond = lambda request: reply
    await ask(node, receiver.url)
    assert await settled(node) == []
    assert len(receiver.received) == (3 if reply == 503 else 1)
    await until(lambda: not node.driver.count())


@pytest.mark.spec("WEB-03")
async def test_unsubscribing_is_confirmed_too(node: EngineNode, receiver: Receiver) -> None:
    await ask(node, receiver.url)
    (webhook,) = await settled(node)
    receiver.respond = lambda request: 404
    await ask(node, receiver.url, "unsubscribe")
    (still,) = await settled(node)
    assert still == webhook
    await put(node, b"1", channel=CHANNEL)
    receiver.respond = Receiver().respond
    await receiver.until(lambda: b"1" in receiver.bodies)
    await ask(node, receiver.url, "unsubscribe")
    assert await settled(node) == []
    question = receiver.received[-1]
    assert question.query["hub.mode"] == "unsubscribe"
    assert "hub.lease_seconds" not in question.query
    assert await ask(node, receiver.url, "unsubscribe") is None


@pytest.mark.spec("WEB-03")
async def test_a_renewal_keeps_the_old_terms_until_it_is_confirmed(
    node: EngineNode, receiver: Receiver
) -> None:
    await ask(node, receiver.url, secret=b"one", lease_seconds="100")
    (first,) = await settled(node)
    receiver.respond = lambda request: 404
    await ask(node, receiver.url, secret=b"two", lease_seconds="5000")
    (same,) = await settled(node)
    assert (same.secret, same.expires_at) == (b"one", first.expires_at)
    receiver.respond = Receiver().respond
    await ask(node, receiver.url, secret=b"two", lease_seconds="5000")
    (renewed,) = await settled(node)
    assert renewed.id == first.id
    assert renewed.secret == b"two"
    assert renewed.expires_at is not None
    assert first.expires_at is not None
    assert renewed.expires_at - first.expires_at >= 4_900_000


@pytest.mark.spec("WEB-03")
async def test_a_verification_goes_on_after_a_restart(tmp_path: Path, receiver: Receiver) -> None:
    receiver.respond = lambda request: asyncio.Event().wait()
    limits = msgspec.structs.replace(FAST, timeout_seconds=30.0, stop_seconds=0.1)
    async with engine(tmp_path, limits) as node:
        await ask(node, receiver.url)
        await receiver.until(lambda: receiver.received)
    receiver.respond = Receiver().respond
    async with engine(tmp_path, limits) as node:
        (webhook,) = await settled(node)
        assert webhook.state == "active"
        await put(node, b"1", channel=CHANNEL)
        await receiver.got(1)


@pytest.mark.spec("WEB-05")
async def test_a_callback_at_a_private_address_is_not_even_asked(
    tmp_path: Path, receiver: Receiver
) -> None:
    async with engine(tmp_path, callback_addresses="public") as node:
        for host in ("localhost", "127.0.0.1"):
            with pytest.raises(NotPermitted):
                await ask(node, f"http://{host}:{receiver.port}/")
        assert await webhooks(node) == []
        assert receiver.connections == 0


async def test_a_denial_is_told(node: EngineNode, receiver: Receiver) -> None:
    await node.node.feature(Webhooks).deny(
        hub_of(node), f"{receiver.url}/?a=b", TOPIC, "not for you"
    )
    (question,) = receiver.received
    assert question.query == {
        "a": "b",
        "hub.mode": "denied",
        "hub.topic": TOPIC,
        "hub.reason": "not for you",
    }


async def test_a_long_topic_can_be_verified(node: EngineNode, receiver: Receiver) -> None:
    topic = "http://a.example/" + "x" * 1900
    await ask(node, f"{receiver.url}/{'y' * 1900}", topic=topic, channel=websub_channel(topic))
    assert len(await settled(node)) == 1


# -- fetching -------------------------------------------------------------------------------------


class Source(Receiver):
    """A topic of somebody else."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.body = b"<feed>1</feed>"
        self.headers = {"ETag": '"1"', "Content_Type": "application/atom+xml; charset=utf-8"}

    def _answer(self, request: Received) -> Reply:
        if request.headers.get("if-none-match") == self.headers.get("ETag"):
            return 304
        return whole_answer(200, self.body, **self.headers)


@pytest.fixture
async def source() -> AsyncIterator[Source]:
    source = Source()
    await source.start()
    yield source
    await source.stop()


async def ping(node: EngineNode, url: str) -> str:
    """Answers what became of it, once it is done with."""
    counts = node.driver.counters["acme"].fetches
    before = counts.copy()
    if not await node.node.feature(Webhooks).ping(hub_of(node), url, websub_channel(url)):
        return "nobody"
    await until(lambda: not node.driver.pending_fetches())
    assert (await topic_of(node, url)).pinged_at is None
    (outcome,) = set(counts - before) & {"new", "same", "given_up"}
    return outcome


async def topic_of(node: EngineNode, url: str) -> WebTopic:
    topic = await node.driver.context.store.read_web_topic("acme", websub_channel(url))
    assert topic is not None
    return topic


async def follow(node: EngineNode, receiver: Receiver, topic: str) -> None:
    await ask(node, receiver.url, topic=topic, channel=websub_channel(topic))
    await settled(node)


@pytest.mark.spec("WEB-03")
async def test_a_ping_has_the_topic_fetched_and_sent_as_it_is(
    node: EngineNode, receiver: Receiver, source: Source
) -> None:
    url = f"{source.url}/feed"
    assert await ping(node, url) == "nobody"
    assert source.received == []
    await follow(node, receiver, url)
    assert await ping(node, url) == "new"
    (message,) = await receiver.got(1)
    assert message.body == source.body
    assert message.headers["content-type"] == "application/atom+xml; charset=utf-8"
    assert f'<{url}>; rel="self"' in message.headers["link"]


@pytest.mark.spec("WEB-03")
async def test_what_did_not_change_is_not_sent_again(
    node: EngineNode, receiver: Receiver, source: Source
) -> None:
    url = f"{source.url}/feed"
    await follow(node, receiver, url)
    assert await ping(node, url) == "new"
    assert await ping(node, url) == "same"
    assert source.received[-1].headers["if-none-match"] == '"1"'
    source.headers["ETag"] = '"2"'
    assert await ping(node, url) == "same"  # another name for the same bytes
    source.headers["ETag"] = '"3"'
    source.body = b"<feed>2</feed>"
    assert await ping(node, url) == "new"
    await receiver.got(2)
    assert receiver.bodies == [b"<feed>1</feed>", b"<feed>2</feed>"]


@pytest.mark.spec("WEB-05")
@pytest.mark.parametrize("reply", [404, 500, 302, whole_answer(200, b"x" * 2_000_000), b"nonsense"])
async def test_a_topic_that_cannot_be_fetched_is_not_sent(
    node: EngineNode, receiver: Receiver, source: Source, reply: Reply
) -> None:
    url = f"{source.url}/feed"
    await follow(node, receiver, url)
    source.respond = lambda request: reply
    assert await ping(node, url) == "given_up"
    assert receiver.bodies == []
    assert (await topic_of(node, url)).fetch_error is not None
    with pytest.raises(BadRequest):
        await node.node.feature(Webhooks).ping(hub_of(node), "nonsense", CHANNEL)


@pytest.mark.spec("WEB-05")
async def test_a_slow_topic_is_given_up(tmp_path: Path, receiver: Receiver, source: Source) -> None:
    async with engine(tmp_path, msgspec.structs.replace(FAST, retries=0)) as node:
        url = f"{source.url}/feed"
        await follow(node, receiver, url)
        source.respond = lambda request: asyncio.Event().wait()
        assert await ping(node, url) == "given_up"
        assert "too long" in str((await topic_of(node, url)).fetch_error)


@pytest.mark.spec("WEB-05")
async def test_pings_without_news_do_not_flood_a_server(
    tmp_path: Path, receiver: Receiver, source: Source
) -> None:
    limits = msgspec.structs.replace(FAST, first_retry_seconds=0.2)
    async with engine(tmp_path, limits) as node:
        url = f"{source.url}/feed"
        await follow(node, receiver, url)
        assert await ping(node, url) == "new"
        loop = asyncio.get_running_loop()
        started = loop.time()
        for _ in range(3):
            assert await ping(node, url) == "same"
        assert loop.time() - started >= 0.4


async def test_pings_at_the_same_time_are_one_or_two_fetches(
    node: EngineNode, receiver: Receiver, source: Source
) -> None:
    url = f"{source.url}/feed"
    await follow(node, receiver, url)
    for _ in range(20):
        await node.node.feature(Webhooks).ping(hub_of(node), url, websub_channel(url))
    await until(lambda: not node.driver.pending_fetches())
    assert node.driver.counters["acme"].fetches["new"] == 1
    assert len(source.received) <= 20
    await receiver.got(1)
    assert receiver.bodies == [b"<feed>1</feed>"]


@pytest.mark.spec("WEB-03", "WEB-05")
async def test_a_topic_that_fails_is_fetched_later_and_says_so_meanwhile(
    node: EngineNode, receiver: Receiver, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"{source.url}/feed"
    await follow(node, receiver, url)
    source.respond = lambda request: 503 if len(source.received) < 3 else source._answer(request)
    await node.node.feature(Webhooks).ping(hub_of(node), url, websub_channel(url))
    await receiver.got(1)
    await until(lambda: not node.driver.pending_fetches())
    counts = node.driver.counters["acme"].fetches
    assert (counts["5xx"], counts["new"], counts["given_up"]) == (2, 1, 0)
    assert f"{url!r} answered 503" in caplog.text
    topic = await topic_of(node, url)
    assert (topic.pinged_at, topic.fetch_failures, topic.fetch_error) == (None, 0, None)


@pytest.mark.spec("WEB-03", "SEC-05")
async def test_a_ping_survives_the_end_of_its_node_and_goes_with_its_channel(
    tmp_path: Path, receiver: Receiver, source: Source
) -> None:
    slow = msgspec.structs.replace(FAST, first_retry_seconds=60, longest_retry_seconds=60)
    url = f"{source.url}/feed"
    async with engine(tmp_path, slow) as node:
        await follow(node, receiver, url)
        source.respond = lambda request: 500
        await node.node.feature(Webhooks).ping(hub_of(node), url, websub_channel(url))
        async with asyncio.timeout(ANSWER_SECONDS):
            while not (await topic_of(node, url)).fetch_failures:
                await asyncio.sleep(0.005)
        partition = partition_of("acme", websub_channel(url))
        await node.driver.released([partition])
        await until(lambda: not node.driver.pending_fetches())
        node.driver.owned([partition])
        await until(lambda: len(source.received) == 2)
    source.respond = source._answer
    async with engine(tmp_path) as node:
        assert [each.body for each in await receiver.got(1)] == [source.body]
        await until(lambda: not node.driver.pending_fetches())
        assert (await topic_of(node, url)).pinged_at is None
