"""The driver of webhooks, against receivers on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from harness.engine import Alone, EngineNode
from harness.receivers import ANSWER_SECONDS, Received, Receiver, Reply, whole_answer
from harness.webhooks import (
    FAST,
    acknowledged,
    describe,
    engine,
    hub_of,
    numbers,
    put,
    subscribe,
    until,
)
from hubbub.client.webhooks.receiver import Receiver as WebhookReceiver
from hubbub.domain.encryption import decrypt
from hubbub.domain.errors import NotSubscribed
from hubbub.domain.messages import Attributes
from hubbub.domain.permissions import ANONYMOUS, Identity
from hubbub.domain.requests import PublishItem
from hubbub.domain.rules import Quotas
from hubbub.domain.webhooks import WantedWebhook, verify_signature
from hubbub.engine.topics.service import Topics
from hubbub.engine.webhooks.service import Webhooks


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[EngineNode]:
    async with engine(tmp_path) as node:
        yield node


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as receiver:
        yield receiver


# -- deliveries -----------------------------------------------------------------------------------


@pytest.mark.spec("WEB-01", "WEB-04")
async def test_messages_arrive_as_they_were_published_and_in_order(
    node: EngineNode, receiver: Receiver
) -> None:
    webhook = await subscribe(node, f"{receiver.url}/x?y=1")
    await put(node, *numbers(1, 40))
    got = await receiver.got(40)
    assert receiver.bodies == numbers(1, 40)
    first = got[0]
    assert first.target == "/x?y=1"
    assert first.headers["content-type"] == "text/plain"
    assert first.headers["user-agent"].startswith("Hubbub/")
    assert first.headers["hubbub-channel"] == "news"
    assert first.headers["hubbub-serial"] == "1"
    assert first.headers["hubbub-attempt"] == "1"
    identifier = first.headers["hubbub-message-id"]
    assert first.headers["idempotency-key"] == f"{webhook.id}:{identifier}"
    assert "x-hub-signature" not in first.headers
    assert receiver.connections == 1
    await acknowledged(node, webhook, 40)


async def test_a_webhook_can_begin_with_what_is_there(node: EngineNode, receiver: Receiver) -> None:
    await put(node, *numbers(1, 100))
    request = WantedWebhook("plain", "news", receiver.url)
    await node.node.feature(Webhooks).subscribe(node.node.hub("acme"), ANONYMOUS, request, "first")
    await put(node, b"101")
    await receiver.got(101)
    assert receiver.bodies == numbers(1, 101)


@pytest.mark.spec("WEB-02")
async def test_what_goes_out_is_signed_and_encrypted(node: EngineNode, receiver: Receiver) -> None:
    await subscribe(node, receiver.url, secret=b"secret", algorithm="sha512", key=b"k" * 16)
    await put(node, b"hello")
    (request,) = await receiver.got(1)
    assert request.headers["content-encoding"] == "aes128gcm"
    assert request.headers["x-hub-signature"].startswith("sha512=")
    assert verify_signature(b"secret", request.headers["x-hub-signature"], request.body)
    assert decrypt(b"k" * 16, request.body) == b"hello"


@pytest.mark.spec("WEB-04")
async def test_a_slow_receiver_does_not_hold_up_others(
    node: EngineNode, receiver: Receiver
) -> None:
    async def never(request: Received) -> Reply:
        await asyncio.Event().wait()
        return 200

    async with Receiver(never) as slow:
        await subscribe(node, slow.url)
        await subscribe(node, receiver.url)
        await put(node, *numbers(1, 20))
        await receiver.got(20)
        assert receiver.bodies == numbers(1, 20)
        assert set(slow.bodies) == {b"1"}


@pytest.mark.spec("WEB-02", "WEB-04")
async def test_messages_wait_while_the_receiver_is_down(tmp_path: Path) -> None:
    limits = msgspec.structs.replace(FAST, retries=10_000)
    async with engine(tmp_path, limits) as node:
        receiver = Receiver()
        await receiver.start()
        webhook = await subscribe(node, receiver.url)
        await put(node, b"1")
        await receiver.got(1)
        await receiver.stop()
        await put(node, *numbers(2, 200))  # more than fit into memory
        await until(lambda: node.driver.outgoing.open_breakers())
        status = await describe(node, webhook)
        assert status.lag == 199
        assert status.failures > 0
        assert status.last_error
        again = Receiver(port=receiver.port)
        await again.start()
        await again.got(199)
        assert again.bodies == numbers(2, 200)
        await until(lambda: not node.driver.outgoing.open_breakers())
        assert (await describe(node, webhook)).lag == 0
        await again.stop()


@pytest.mark.spec("WEB-02")
async def test_what_was_not_delivered_is_delivered_after_a_restart(
    tmp_path: Path, receiver: Receiver
) -> None:
    limits = msgspec.structs.replace(FAST, retries=10_000)
    receiver.respond = lambda request: 503
    async with engine(tmp_path, limits) as node:
        await subscribe(node, receiver.url)
        await put(node, *numbers(1, 30))
        await receiver.got(1)
    receiver.respond = lambda request: 200
    before = len(receiver.messages)
    async with engine(tmp_path, limits) as node:
        await receiver.got(before + 30)
        assert receiver.bodies[before:] == numbers(1, 30)
        await put(node, b"31")
        await receiver.got(before + 31)
    after = len(receiver.messages)
    async with engine(tmp_path, limits) as node:
        await put(node, b"32")
        await receiver.got(after + 1)
        assert receiver.bodies[after:] == [b"32"]  # what was acknowledged does not come again


async def test_stopping_lets_a_request_end_and_remembers_it(
    tmp_path: Path, receiver: Receiver
) -> None:
    answer = asyncio.Event()

    async def later(request: Received) -> Reply:
        await answer.wait()
        return 200

    receiver.respond = later
    async with engine(tmp_path) as node:
        await subscribe(node, receiver.url)
        await put(node, b"1", b"2")
        await receiver.got(1)
        asyncio.get_running_loop().call_later(0.1, answer.set)
    async with engine(tmp_path) as node:
        await receiver.got(2)
        assert receiver.bodies == [b"1", b"2"]


# -- failures -------------------------------------------------------------------------------------


@pytest.mark.spec("WEB-04")
@pytest.mark.parametrize("status", [500, 503, 404, 302, 429])
async def test_a_failure_is_tried_again(node: EngineNode, receiver: Receiver, status: int) -> None:
    answers = iter([status])
    receiver.respond = lambda request: next(answers, 200)
    await subscribe(node, receiver.url)
    await put(node, b"1", b"2")
    got = await receiver.got(3)
    assert receiver.bodies == [b"1", b"1", b"2"]
    assert [each.headers["hubbub-attempt"] for each in got] == ["1", "2", "1"]
    assert got[0].headers["idempotency-key"] == got[1].headers["idempotency-key"]


@pytest.mark.spec("WEB-04")
async def test_what_cannot_be_delivered_goes_to_the_dead_letters_and_can_be_replayed(
    node: EngineNode, receiver: Receiver
) -> None:
    receiver.respond = lambda request: 500 if request.body in (b"1", b"3") else 200
    webhook = await subscribe(node, receiver.url)
    await subscribe(node, f"{receiver.url}/other")
    await put(node, *numbers(1, 4))

    def mine() -> list[bytes]:
        return [r.body for r in receiver.messages if r.path == "/"]

    await receiver.until(lambda: mine()[-1:] == [b"4"])
    assert mine() == [b"1"] * 4 + [b"2"] + [b"3"] * 4 + [b"4"]
    await until(lambda: node.driver.counters["acme"].dead_letters == 4)
    assert (await describe(node, webhook)).dead_letters == 2
    webhooks, hub = node.node.feature(Webhooks), node.node.hub("acme")
    receiver.received.clear()
    assert await webhooks.replay(hub, webhook.id) == (0, 2)
    receiver.respond = lambda request: 200
    receiver.received.clear()
    assert await webhooks.replay(hub, webhook.id) == (2, 0)
    assert mine() == [b"1", b"3"]
    first = receiver.messages[0]
    assert first.headers["hubbub-serial"] == "1"
    assert not first.headers["hubbub-message-id"].startswith("dead-")
    assert await webhooks.replay(hub, webhook.id) == (0, 0)


@pytest.mark.spec("WEB-04")
async def test_a_replay_goes_through_all_letters_and_ends_where_nobody_is(
    node: EngineNode, receiver: Receiver
) -> None:
    receiver.respond = lambda request: 400
    webhook = await subscribe(node, receiver.url)
    await subscribe(node, f"{receiver.url}/other")
    await put(node, *numbers(1, 40))
    await until(lambda: node.driver.counters["acme"].dead_letters == 80)
    webhooks, hub = node.node.feature(Webhooks), node.node.hub("acme")
    port = receiver.port
    await receiver.stop()
    assert await webhooks.replay(hub, webhook.id) == (0, 1)
    async with Receiver(port=port) as again:
        async with asyncio.timeout(ANSWER_SECONDS):
            while (await webhooks.replay(hub, webhook.id))[1]:
                await asyncio.sleep(0.01)  # until the host is tried again
        assert again.bodies == numbers(1, 40)
        assert await webhooks.replay(hub, webhook.id) == (0, 0)


@pytest.mark.spec("WEB-03")
async def test_410_ends_the_subscription(node: EngineNode, receiver: Receiver) -> None:
    receiver.respond = lambda request: 410
    webhook = await subscribe(node, receiver.url)
    await put(node, b"1")
    await receiver.got(1)
    await until(lambda: not node.driver.count())
    hub = node.node.hub("acme")
    async with asyncio.timeout(ANSWER_SECONDS):
        while await node.node.feature(Webhooks).list(hub):
            await asyncio.sleep(0.01)
    with pytest.raises(NotSubscribed):
        await node.node.feature(Webhooks).describe(hub, webhook.id)
    assert await node.driver.context.store.read_cursors("acme", "news", "webhook") == []


@pytest.mark.spec("WEB-04")
async def test_retry_after_is_obeyed_within_bounds(tmp_path: Path, receiver: Receiver) -> None:
    answers = iter([whole_answer(503, Retry_After="86400")])
    receiver.respond = lambda request: next(answers, 200)
    limits = msgspec.structs.replace(FAST, longest_retry_seconds=0.3)
    async with engine(tmp_path, limits) as node:
        webhook = await subscribe(node, receiver.url)
        await put(node, b"1")
        await receiver.got(1)
        await until(lambda: next(iter(node.driver._driven.values())).status.next_try_at)
        status = await describe(node, webhook)
        assert status.attempts == 1
        wait = status.next_try_at / 1000 - node.driver.context.clock.now()
        assert 0.2 < wait <= 0.4
        await receiver.got(2)


@pytest.mark.spec("WEB-04")
async def test_a_host_that_fails_is_left_alone_and_probed(
    tmp_path: Path, receiver: Receiver
) -> None:
    limits = msgspec.structs.replace(
        FAST, retries=10_000, first_retry_seconds=0.2, longest_retry_seconds=0.2
    )
    receiver.respond = lambda request: 500
    async with engine(tmp_path, limits) as node:
        for number in range(20):
            await subscribe(node, f"{receiver.url}/{number}")
        await put(node, b"1")
        await until(lambda: node.driver.outgoing.open_breakers())
        at_first = len(receiver.messages)
        assert at_first <= 20
        await receiver.got(at_first + 2)  # probes, one by one
        receiver.respond = lambda request: 200
        await receiver.until(lambda: len({r.path for r in receiver.messages}) == 20)
        await until(lambda: node.driver.counters["acme"].answered.count == 20)


@pytest.mark.spec("WEB-05")
async def test_a_name_that_leads_to_a_private_address_gets_nothing(
    tmp_path: Path, receiver: Receiver
) -> None:
    async with engine(tmp_path) as node:
        webhook = await subscribe(node, f"http://localhost:{receiver.port}/")
        settings = node.directory.get("acme").settings
        closed = msgspec.structs.replace(settings, callback_addresses="public")
        await node.directory.put("acme", "hub", "", closed)
        await put(node, b"1")
        await until(lambda: node.driver.counters["acme"].dead_letters)
        status = await describe(node, webhook)
        assert "where this hub sends nothing" in str(status.last_error)
        assert receiver.connections == 0


@pytest.mark.spec("WEB-05")
async def test_an_answer_without_end_is_cut_off_and_counts(
    node: EngineNode, receiver: Receiver
) -> None:
    receiver.respond = lambda request: whole_answer(200, b"x" * 10_000_000)
    await subscribe(node, receiver.url)
    await put(node, b"1", b"2")
    await receiver.got(2)
    assert receiver.bodies == [b"1", b"2"]


@pytest.mark.spec("WEB-05")
async def test_a_hub_sends_no_more_than_its_quota(tmp_path: Path, receiver: Receiver) -> None:
    async with engine(tmp_path, quotas=Quotas(webhook_requests_per_second=20)) as node:
        await subscribe(node, receiver.url)
        loop = asyncio.get_running_loop()
        started = loop.time()
        await put(node, *numbers(1, 30))
        await receiver.got(30)
        assert loop.time() - started >= 0.3


# -- life -----------------------------------------------------------------------------------------


async def test_unsubscribing_breaks_off_what_is_under_way(
    node: EngineNode, receiver: Receiver
) -> None:
    receiver.respond = lambda request: asyncio.Event().wait()
    webhook = await subscribe(node, receiver.url)
    await put(node, b"1", b"2")
    await receiver.got(1)
    await node.node.feature(Webhooks).end(webhook)
    assert node.driver.count() == 0
    assert node.driver.outgoing.in_flight == 0 or await settled(node)
    await put(node, b"3")
    assert receiver.bodies == [b"1"]


async def settled(node: EngineNode) -> bool:
    await until(lambda: node.driver.outgoing.in_flight == 0)
    return True


async def test_a_renewal_holds_from_the_next_message_on(
    node: EngineNode, receiver: Receiver
) -> None:
    await subscribe(node, receiver.url, secret=b"one")
    await put(node, b"1")
    await receiver.got(1)
    await subscribe(node, receiver.url, secret=b"two")
    await put(node, b"2")
    first, second = await receiver.got(2)
    assert verify_signature(b"one", first.headers["x-hub-signature"], b"1")
    assert verify_signature(b"two", second.headers["x-hub-signature"], b"2")


@pytest.mark.spec("WEB-03")
async def test_a_lease_that_is_over_ends_the_webhook(tmp_path: Path, receiver: Receiver) -> None:
    async with Alone(tmp_path, hubs=[hub_of()], webhooks=FAST) as alone:
        node = alone.node
        await subscribe(node, receiver.url, lease_seconds=60)
        await put(node, b"1")
        await receiver.got(1)
        alone.clock.advance(61)
        node.driver.sweep()
        await until(lambda: not node.driver.count())
        async with asyncio.timeout(ANSWER_SECONDS):
            while await node.node.feature(Webhooks).list(node.node.hub("acme")):
                await asyncio.sleep(0.01)


async def test_webhooks_go_with_their_hub(node: EngineNode, receiver: Receiver) -> None:
    await subscribe(node, receiver.url)
    assert node.driver.count() == 1
    await node.directory.delete_hub("acme")
    assert node.driver.count() == 0


async def test_a_row_without_a_place_is_dropped_at_the_start(tmp_path: Path) -> None:
    async with engine(tmp_path) as node:
        webhook = await subscribe(node, "http://127.0.0.1:9/")
        left = msgspec.structs.replace(webhook, id="left", callback="http://127.0.0.1:9/left")
        await node.driver.context.store.save_webhook(left)
    async with engine(tmp_path) as node:
        await until(lambda: node.driver.count() == 1)
        assert [w.id for w in await node.node.feature(Webhooks).list(node.node.hub("acme"))] == [
            webhook.id
        ]


@pytest.mark.spec("WEB-04", "CLU-01")
async def test_webhooks_move_with_their_partitions(node: EngineNode, receiver: Receiver) -> None:
    webhook = await subscribe(node, receiver.url)
    await put(node, b"1")
    await acknowledged(node, webhook, 1)
    await node.driver.released(range(1024))
    assert node.driver.count() == 0
    await put(node, b"2", b"3")
    assert receiver.bodies == [b"1"]
    node.driver.owned(range(1024))
    await receiver.got(3)
    assert receiver.bodies == [b"1", b"2", b"3"]


@pytest.mark.spec("LIVE-20")
async def test_the_envelope_goes_out_in_headers_which_the_receiver_reads(
    node: EngineNode, receiver: Receiver
) -> None:
    await subscribe(node, receiver.url)
    attributes = Attributes(
        subtype="reply",
        author="Änne Öz",
        conversation_id="c-1",
        refers_to="m-1",
        priority=0,
        relevant_until=1_800_000_000_000,
        ttl=60_000,
        location={"lat": 48.1, "lng": 11.5},
        headers={"k": ["v", 1, None], "é": True},
    )
    item = PublishItem("news", "chat.reply", b"1", "text/plain", attributes=attributes)
    await node.node.feature(Topics).put(node.node.hub("acme"), Identity(user_id="bob x"), item)
    (request,) = await receiver.got(1)
    assert request.headers["hubbub-conversation-id"] == "c-1"
    assert request.headers["hubbub-ttl"] == "60000"
    delivery = WebhookReceiver().read(request.headers, request.body)
    assert delivery.attributes == attributes
    assert (delivery.event, delivery.publisher) == ("chat.reply", "bob x")
