"""The Python client and the command line over ZeroMQ."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator

import pytest
import zmq
import zmq.asyncio

from harness.command import Ended
from harness.invoking import at, invoke
from harness.running_hub import RunningHub, StartHub, open_hub
from harness.topics import STORED
from hubbub.cli.messages import over_zeromq
from hubbub.client import NotPermitted, NotSubscribed, TopicNotFound, Unreachable
from hubbub.client.zeromq import TIMEOUT_SECONDS, ZeroMqTopics
from hubbub.domain.permissions import Level
from hubbub.ports.storage.administration import AuditQuery

pytestmark = pytest.mark.spec("ONCE-04", "ONCE-05")


@pytest.fixture
async def hub(start_hub: StartHub) -> RunningHub:
    return await start_hub(open_hub(rules=STORED), zeromq__endpoint="tcp://127.0.0.1:*")


def endpoint(hub: RunningHub) -> str:
    assert hub.server.zeromq is not None
    return hub.server.zeromq


async def test_messages_are_put_got_and_acknowledged(hub: RunningHub) -> None:
    async with ZeroMqTopics(endpoint(hub), hub="acme", token=hub.token("ann")) as client:
        with pytest.raises(TopicNotFound):
            await client.get("orders")
        assert (await client.subscribe("orders"))["lag"] == 0
        receipts = [await client.put("orders", {"n": number}) for number in range(3)]
        assert [each.serial for each in receipts] == [1, 2, 3]
        found = await client.get("orders", limit=10)
        assert [each.data for each in found] == [{"n": 0}, {"n": 1}, {"n": 2}]
        assert await client.ack("orders", [1, 2]) == 2
        (left,) = await client.get("orders", limit=10)
        assert (left.serial, left.redelivered) == (3, True)
        assert await client.ack("orders", up_to=3) == 3
        assert await client.get("orders", wait_seconds=0.05) == []
        await client.unsubscribe("orders")
        with pytest.raises(NotSubscribed):
            await client.get("orders")


async def test_one_message_of_each_topic_comes_where_there_is_one(hub: RunningHub) -> None:
    async with ZeroMqTopics(endpoint(hub), hub="acme", token=hub.token("ann")) as client:
        assert await client.get_each() == {}
        for topic in ("orders", "returns", "tea"):
            await client.subscribe(topic)
        for number in range(2):
            await client.put("orders", {"n": number})
        await client.put("tea", "hot")
        found = await client.get_each()
        assert {topic: each and each.serial for topic, each in found.items()} == {
            "orders": 1, "returns": None, "tea": 1,
        }  # fmt: skip
        assert found["orders"] is not None
        assert found["orders"].data == {"n": 0}
        assert await client.get_each("another") == {}
    env: dict[str, str | None] = {"HUBBUB_HUB": "acme", "HUBBUB_TOKEN": hub.token("ann")}
    over = ("--zeromq", endpoint(hub))
    first = await invoke("get", *over, **env)
    assert ('{"n":0}' in first.out.replace(" ", ""), first.code) == (True, 0), first.err
    second = await invoke("get", *over, **env)
    assert '{"n":1}' in second.out.replace(" ", ""), "the first one is acknowledged"
    assert "nothing waits" in (await invoke("get", *over, **env)).err


class LossyRelay:
    """Stands between client and hub, and drops answers while `losing` is set."""

    def __init__(self, context: zmq.asyncio.Context, hub: str) -> None:
        self._front, self._back = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
        self._back.connect(hub)
        port = self._front.bind_to_random_port("tcp://127.0.0.1")
        self.endpoint = f"tcp://127.0.0.1:{port}"
        self.losing = True
        self.lost: asyncio.Queue[list[bytes]] = asyncio.Queue()

    async def _there(self) -> None:
        while True:
            await self._back.send_multipart(await self._front.recv_multipart())

    async def _back_again(self) -> None:
        while True:
            answer = await self._back.recv_multipart()
            if self.losing:
                self.lost.put_nowait(answer)
            else:
                await self._front.send_multipart(answer)

    async def run(self) -> None:
        try:
            await asyncio.gather(self._there(), self._back_again())
        finally:
            self._front.close(0)
            self._back.close(0)


@pytest.fixture
async def relay(hub: RunningHub) -> AsyncIterator[LossyRelay]:
    with zmq.asyncio.Context() as context:
        relay = LossyRelay(context, endpoint(hub))
        running = asyncio.create_task(relay.run())
        yield relay
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_put_is_sent_until_it_is_answered_and_stored_once(relay: LossyRelay) -> None:
    """Four answers are lost: there is no limit of tries unless one is given."""
    assert TIMEOUT_SECONDS == 10.0
    async with ZeroMqTopics(relay.endpoint, hub="acme", timeout_seconds=0.5) as client:
        put = asyncio.create_task(client.put("orders", "x"))
        for _ in range(4):
            assert b"PutReply" in await relay.lost.get()
        relay.losing = False
        receipt = await put
        assert (receipt.serial, receipt.duplicate) == (1, True)
        assert (await client.put("orders", "y")).serial == 2


async def test_puts_go_on_after_one_whose_answers_were_all_lost(relay: LossyRelay) -> None:
    async with ZeroMqTopics(relay.endpoint, hub="acme", timeout_seconds=0.5, tries=2) as client:
        with pytest.raises(Unreachable, match="did not answer 2 times"):
            await client.put("orders", "stored, but nobody knows")
        relay.losing = False
        receipt = await client.put("orders", "y")
        assert (receipt.serial, receipt.duplicate) == (2, False)
        assert (await client.put("orders", "z")).serial == 3


async def test_puts_go_on_after_one_that_was_cancelled(relay: LossyRelay) -> None:
    async with ZeroMqTopics(relay.endpoint, hub="acme") as client:
        put = asyncio.create_task(client.put("orders", "stored, but nobody knows"))
        await relay.lost.get()
        put.cancel()
        await asyncio.gather(put, return_exceptions=True)
        relay.losing = False
        receipt = await client.put("orders", "y")
        assert (receipt.serial, receipt.duplicate) == (2, False)


async def test_who_is_not_there_is_given_up_in_words() -> None:
    async with ZeroMqTopics("tcp://127.0.0.1:1", timeout_seconds=0.05, tries=2) as client:
        with pytest.raises(Unreachable, match="did not answer 2 times"):
            await client.put("orders", "x")


async def test_a_command_says_at_once_that_nothing_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hasty = functools.partial(ZeroMqTopics, timeout_seconds=0.05)
    monkeypatch.setattr(over_zeromq, "ZeroMqTopics", hasty)
    put = await invoke("put", "orders", "x", "--zeromq", "tcp://127.0.0.1:1")
    note = "note: nothing answers at tcp://127.0.0.1:1 within 0.05 s; sending it again"
    assert put.err.splitlines()[:2] == [note, note]
    assert "did not answer 3 times" in put.err.splitlines()[2]


async def test_the_commands_about_topics_work_over_zeromq(hub: RunningHub) -> None:
    env: dict[str, str | None] = {"HUBBUB_HUB": "acme", "HUBBUB_TOKEN": hub.token("ann")}
    over = ("--zeromq", endpoint(hub))
    subscribed = await invoke("subscribe", "--durable", "orders", *over, **env)
    assert subscribed.out == "SUBSCRIBED orders (default), 0 waiting\n"
    put = await invoke("put", "orders", "two teapots", *over, **env)
    assert put.out.split()[1:] == ["1"], put.err
    assert "two teapots" in (await invoke("get", "orders", *over, **env)).out
    assert "nothing waits" in (await invoke("get", "orders", *over, **env)).err
    ended = await invoke("unsubscribe", "orders", *over, **env)
    assert ended.out == "UNSUBSCRIBED orders\n"
    assert (await invoke("subscribe", "orders", *over, **env)).code == 2


@pytest.mark.spec("ONCE-01")
@pytest.mark.parametrize("door", ["zeromq", "http"])
async def test_shutdown_is_for_administrators_and_asks_the_server_to_stop(
    hub: RunningHub, door: str
) -> None:
    async with ZeroMqTopics(endpoint(hub), hub="acme", token=hub.token("ann")) as client:
        with pytest.raises(NotPermitted):
            await client.shutdown()
    stop = hub.server.stop_requested
    over = ("--zeromq", endpoint(hub)) if door == "zeromq" else ()
    nowhere = {"HUBBUB_URL": "ws://127.0.0.1:1"} if over else {}

    async def shutdown(token: str) -> Ended:
        return await invoke("shutdown", "--yes", *over, **at(hub, token) | nowhere)

    refused = await shutdown(hub.token(level=Level.ADMIN))
    assert refused.code == 1
    assert "127.0.0.1:1" not in refused.err
    assert not stop.is_set()
    ended = await shutdown(hub.token("root", "*", Level.ADMIN))
    assert ended.out == "Shutdown\n", ended.err
    async with asyncio.timeout(10):
        await stop.wait()
    (noted, *_) = await hub.server.administration.audit.read(AuditQuery(hub="*", limit=1))
    assert (noted.action, noted.actor) == ("server.shutdown", "root")
