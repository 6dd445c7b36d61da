"""Traces of messages: one trace from the publisher through nodes, store and fan-out to webhooks."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from benchmarks.postgres import LocalPostgres
from harness.callbacks import Callbacks
from harness.clock import FakeClock
from harness.cluster import channel_of, ground, start_node
from harness.otlp import CALLER, TRACE, Collector
from harness.postgres import new_database
from harness.running_hub import RunningHub, StartHub
from harness.topics import HttpTopic, topic_hub, until
from hubbub.domain.permissions import Level
from hubbub.engine.delivery.fanout import Fanout
from hubbub.engine.publishing import Publisher
from hubbub.server.settings import SettingsError, load

pytestmark = pytest.mark.spec("ADMIN-05")

SECRET = "c0ffee-not-for-strangers"
HUB = topic_hub(callback_addresses="loopback")


async def publish(hub: RunningHub, channel: str, **headers: str) -> Any:
    path = f"/v1/hubs/acme/channels/{channel}/messages?store=true"
    async with hub.http.post(path, json={"text": SECRET}, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


async def add_webhook(hub: RunningHub, channel: str, callback: str) -> None:
    token = hub.token(user=None, level=Level.SERVICE)
    async with hub.http.post(
        "/v1/hubs/acme/webhooks",
        json={"channel": channel, "callback": callback},
        headers={"Authorization": f"Bearer {token}"},
    ) as answer:
        assert answer.status == 201, await answer.text()


async def test_a_stored_message_is_one_trace_to_subscribers_and_webhooks(
    start_server: StartHub,
) -> None:
    async with Collector() as collector, Callbacks() as receiver:
        hub = await start_server(HUB, tracing__serviceName="shop", **collector.keys)
        await add_webhook(hub, "news", receiver.at("/in"))
        sockets = [await hub.socket(), await hub.socket()]
        for socket in sockets:
            await socket.subscribe("news")
        answer = await publish(hub, "news", traceparent=CALLER)
        for socket in sockets:
            assert (await socket.find("Publish"))["msgID"] == answer["msgID"]
        await receiver.until(lambda: receiver.messages)

        published = await collector.one("publish")
        assert (published.trace, published.parent) == (TRACE, CALLER.split("-")[2])
        assert published.service == "shop"
        facts = published.facts
        assert (facts["hubbub.hub"], facts["messaging.destination.name"]) == ("acme", "news")
        assert facts["messaging.message.id"] == answer["msgID"]
        assert (facts["hubbub.serial"], facts["hubbub.technology"]) == (1, "http")
        below = [await collector.one(name) for name in ("append", "deliver", "webhook")]
        assert {(span.trace, span.parent) for span in below} == {(TRACE, published.id)}
        assert {span.facts["hubbub.hub"] for span in below} == {"acme"}
        stored, delivered, sent = below
        assert 0 < stored.nanoseconds < published.nanoseconds
        assert delivered.facts["hubbub.subscribers"] == 2
        assert sent.facts["http.response.status_code"] == 200
        assert receiver.messages[-1].headers["traceparent"] == sent.context
        assert not any(SECRET.encode() in request.body for request in collector.received)
        async with hub.http.get("/v1/hubs/acme/channels/news/messages") as page:
            text = await page.text()
            assert answer["msgID"] in text
            assert "traceparent" not in text, "subscribers get what was published, and no more"


async def test_a_message_that_another_node_owns_is_one_trace_across_both(
    postgres: LocalPostgres, tmp_path: Path
) -> None:
    names = ("east", "west")
    channel = channel_of("east", names)
    async with (
        ground(tmp_path, await new_database(postgres)) as on,
        Collector() as collector,
        Callbacks() as receiver,
    ):
        east, west = [
            await start_node(tmp_path, on, name, [HUB], **collector.keys) for name in names
        ]
        try:
            await add_webhook(west, channel, receiver.at("/in"))
            socket = await west.socket()
            await socket.subscribe(channel)
            await publish(west, channel, traceparent=CALLER)
            await socket.find("Publish")
            await receiver.until(lambda: receiver.messages)
            published, forwarded, stored, delivered, sent = [
                await collector.one(name)
                for name in ("publish", "forward", "append", "deliver", "webhook")
            ]
        finally:
            for node in (east, west):
                await node.close()
    assert (published.node, published.parent) == ("west", CALLER.split("-")[2])
    assert (forwarded.node, forwarded.parent) == ("west", published.id)
    assert forwarded.facts["hubbub.owner"] == "east"
    assert {span.parent for span in (stored, delivered, sent)} == {forwarded.id}
    assert [span.node for span in (stored, delivered, sent)] == ["east", "west", "east"]
    assert {span.trace for span in collector.spans} == {TRACE}


async def test_over_a_socket_the_context_is_a_header_of_the_message(start_server: StartHub) -> None:
    async with Collector() as collector:
        hub = await start_server(HUB, **collector.keys)
        subscriber, publisher = await hub.socket(), await hub.socket()
        await subscriber.subscribe("live:a")
        given = {"traceparent": CALLER, "color": "red"}
        item = {"channel": "live:a", "event": "e", "payload": {"json": 1}, "headers": given}
        await publisher.send("Publish", publishes=[item])
        assert (await subscriber.find("Publish"))["headers"] == given
        published, delivered = await collector.one("publish"), await collector.one("deliver")
        assert (published.trace, published.parent) == (TRACE, CALLER.split("-")[2])
        assert delivered.parent == published.id


@pytest.mark.parametrize("batched", [False, True], ids=["put", "batch"])
async def test_puts_and_batches_over_http_are_traced(start_server: StartHub, batched: bool) -> None:
    async with Collector() as collector:
        hub = await start_server(HUB, **collector.keys)
        if batched:
            stored = {"store": True}
            item = {"channel": "news", "event": "e", "payload": {"json": 1}, "extra": stored}
            path, body = "/v1/hubs/acme/messages", {"publishes": [item]}
        else:
            path, body = "/v1/hubs/acme/topics/news/messages", {}
        async with hub.http.post(path, json=body, headers={"traceparent": CALLER}) as answer:
            assert answer.status == 200, await answer.text()
        published = await collector.one("publish")
        assert (published.trace, published.parent) == (TRACE, CALLER.split("-")[2])
        assert (await collector.one("append")).parent == published.id


@pytest.mark.parametrize(
    "context",
    ["", "00-0-0-01", CALLER.upper(), f"00-{'0' * 32}-b7ad6b7169203331-01", f"ff{CALLER[2:]}"],
)
async def test_a_context_that_is_none_begins_a_new_trace(
    start_server: StartHub, context: str
) -> None:
    async with Collector() as collector:
        hub = await start_server(HUB, **collector.keys | {"tracing__sampleRatio": 1})
        await publish(hub, "news", traceparent=context)
        published = await collector.one("publish")
        assert (published.parent, published.trace == TRACE) == ("", False)


async def test_what_is_not_sampled_is_not_told(start_server: StartHub) -> None:
    async with Collector() as collector:
        hub = await start_server(HUB, **collector.keys)
        await publish(hub, "news")
        await publish(hub, "news", traceparent=f"{CALLER[:-2]}00")
        await publish(hub, "news", traceparent=CALLER)
        assert (await collector.one("publish")).facts["hubbub.serial"] == 3
        assert (await collector.one("append")).facts["hubbub.serial"] == 3


async def test_publishers_cannot_ask_for_more_traces_than_their_hub_may_have(
    start_server: StartHub,
) -> None:
    clock = FakeClock()
    async with Collector() as collector:
        other = topic_hub("other")
        hub = await start_server(HUB, other, clock=clock, tracing__maxPerSecond=2, **collector.keys)
        for _ in range(4):
            await publish(hub, "news", traceparent=CALLER)
        clock.advance(1.0)
        await publish(hub, "news", traceparent=CALLER)
        await collector.until(lambda: len(collector.named("append")) == 3)
        assert [span.facts["hubbub.serial"] for span in collector.named("append")] == [1, 2, 5]
        await HttpTopic(hub, "news", name="other").put({"n": 1})


async def test_a_refused_message_ends_its_span_with_the_code(start_server: StartHub) -> None:
    async with Collector() as collector:
        hub = await start_server(HUB, connection__ws__maxMessageBytes=2048, **collector.keys)
        path = "/v1/hubs/acme/channels/news/messages"
        body = b'"' + 4096 * b"x" + b'"'
        headers = {"traceparent": CALLER, "Content-Type": "application/json"}
        async with hub.http.post(path, data=body, headers=headers) as answer:
            assert answer.status == 413
        published = await collector.one("publish")
        assert (published.failed, published.facts["error.type"]) == (True, "too_large")


async def test_a_receiver_that_fails_harms_nobody_and_is_told_once(
    start_server: StartHub, caplog: pytest.LogCaptureFixture
) -> None:
    def said(level: int) -> list[str]:
        return [
            record.getMessage()
            for record in caplog.records
            if record.levelno == level and record.name.startswith("hubbub.connectors")
        ]

    caplog.set_level(logging.INFO)
    async with Collector(lambda request: 400) as collector:
        hub = await start_server(HUB, **collector.keys)
        for number in range(1, 4):
            assert (await publish(hub, "news", traceparent=CALLER))["channelSerial"] == str(number)
            await collector.got(number)
        await until(lambda: said(logging.WARNING))
        assert collector.url in said(logging.WARNING)[0]
        collector.respond = lambda request: 200
        await publish(hub, "news", traceparent=CALLER)
        await until(lambda: said(logging.INFO))
        assert len(said(logging.WARNING)) == 1


async def test_a_hub_ends_soon_though_nobody_takes_its_spans(start_server: StartHub) -> None:
    async with Collector() as collector:
        keys = collector.keys
    hub = await start_server(HUB, **keys)  # nobody listens there any more
    await publish(hub, "news", traceparent=CALLER)


async def test_a_hub_that_does_not_trace_has_nothing_of_it_on_its_way(
    start_server: StartHub,
) -> None:
    async with Callbacks() as receiver:
        hub = await start_server(HUB)
        server = hub.server
        assert type(server.node.publisher) is Publisher
        assert type(server.node.fanout) is Fanout
        assert "receive" not in vars(server.node)
        assert server.owner._appender._append_all == server.store.append
        await add_webhook(hub, "news", receiver.at("/in"))
        await publish(hub, "news", traceparent=CALLER)
        assert "traceparent" not in (await receiver.got(1))[0].headers
        page = await server.store.read_after("acme", "news", 0, 10)
        assert [message.attributes for message in page.messages] == [None]


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"tracing.endpoint": "collector:4318"}, "tracing.endpoint is no URL"),
        ({"tracing.header": "secret"}, "tracing.header is no header"),
        ({"tracing.sampleRatio": 2}, "tracing.sampleRatio"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(
    keys: dict[str, object], problem: str
) -> None:
    with pytest.raises(SettingsError, match=problem):
        load(None, {}, keys)
