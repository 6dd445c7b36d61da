"""Topics over ZeroMQ mean what they mean elsewhere, whoever asks and whoever goes away."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
import zmq

from benchmarks.servers import free_port
from harness.hub_process import HubProcess
from harness.journal import journalled
from harness.running_hub import RunningHub, StartHub
from harness.topics import HttpTopic, topic_hub, until
from harness.zeromq import ANY_PORT, ZeroMqClient, ZeroMqClients, zeromq_clients
from hubbub.domain.journal import RECEIVED
from hubbub.domain.permissions import Level

pytestmark = pytest.mark.spec("ONCE-01", "ONCE-04")


@pytest.fixture
async def hub(start_server: StartHub) -> RunningHub:
    return await start_server(topic_hub(), topic_hub("other"), zeromq__endpoint=ANY_PORT)


@pytest.fixture
async def clients(hub: RunningHub) -> AsyncIterator[ZeroMqClients]:
    async with zeromq_clients(hub) as made:
        yield made


def connections(hub: RunningHub) -> int:
    """How many clients the ZeroMQ door has, and has not yet noticed the end of."""
    assert hub.server.zeromq is not None
    port = urlsplit(hub.server.zeromq).port
    return sum(
        each.laddr[1] == port and each.status in ("ESTABLISHED", "CLOSE_WAIT")
        for each in psutil.Process().net_connections("tcp4")
        if each.laddr
    )


@pytest.fixture
def client(clients: ZeroMqClients) -> ZeroMqClient:
    return clients.make()


async def test_what_is_put_over_one_door_is_got_over_another(
    hub: RunningHub, client: ZeroMqClient
) -> None:
    ann = hub.token("ann")
    http = HttpTopic(hub, "orders", ann)
    await client.ask("subscribe", ann, "orders")
    assert (await http.put("from HTTP")).status == 200
    article = await client.get(ann, "orders")
    assert article[:4] == [b"TopicArticle", b"orders", b"1", b"from HTTP"]
    assert await client.put(ann, "orders", b"\x00\xff") == 2
    assert (await http.ack(upTo="1")).json["floor"] == "1"
    name, _, serial, payload, about = await client.get(ann, "orders")
    assert (name, serial, payload) == (b"TopicArticle", b"2", b"\x00\xff")
    assert json.loads(about)["contentType"] == "application/octet-stream"
    assert json.loads(about)["publisher"] == "ann"


@pytest.mark.spec("PIPE-01")
async def test_the_journal_says_by_which_way_and_how_fast_messages_were_fetched(
    hub: RunningHub, client: ZeroMqClient, tmp_path: Path
) -> None:
    ann = hub.token("ann")
    await client.ask("subscribe", ann, "orders")
    await client.put(ann, "orders", "one")
    await client.get(ann, "orders")
    found = await journalled(
        tmp_path / "data" / "journal", lambda all_of: any(e.kind == RECEIVED for e in all_of)
    )
    (got,) = [event for event in found if event.kind == RECEIVED]
    assert (got.technology, got.count, got.size) == ("zeromq", 1, 3)
    assert got.latency_buckets is not None
    assert sum(got.latency_buckets.values()) == 1


async def test_a_repeated_put_answers_the_same_serial_over_any_door(
    hub: RunningHub, client: ZeroMqClient
) -> None:
    ann = hub.token("ann")
    await client.put(ann, "orders", "before")
    assert await client.put(ann, "orders", "x", producer="till", sequence=1) == 2
    assert await client.put(ann, "orders", "x", producer="till", sequence="1") == 2
    http = HttpTopic(hub, "orders", ann)
    again = await http.put("x", producer="till", sequence="1")
    assert (again.json["channelSerial"], again.json["duplicate"]) == ("2", True)
    # The same names of somebody else are somebody else's.
    assert await client.put(hub.token("bob"), "orders", "y", producer="till", sequence=1) == 3


async def test_nobody_reads_or_moves_the_subscription_of_another(
    hub: RunningHub, client: ZeroMqClient
) -> None:
    ann, bob = hub.token("ann"), hub.token("bob")
    await client.ask("subscribe", ann, "orders")
    await client.put(ann, "orders", "for ann")
    for credential in (bob, "acme"):
        for request in (
            ("get", credential, "orders"),
            ("ack", credential, "orders", "1"),
            ("unsubscribe", credential, "orders"),
            ("get", credential, ""),
        ):
            assert (await client.ask(*request))[0] == b"NotSubscribed"
    await client.ask("subscribe", bob, "orders", '{"start": "first"}')
    await client.ask("ack", bob, "orders", "1")
    assert (await client.get(ann, "orders"))[3] == b"for ann"


async def test_a_credential_names_its_hub(hub: RunningHub, client: ZeroMqClient) -> None:
    admin = hub.token(None, "*", Level.ADMIN)
    await client.put("acme", "news", "of acme")
    await client.put("other", "news", "of the other")
    for credential, hub_name in (
        ("acme", b"acme"),
        ("other", b"other"),
        (hub.token("ann", "other"), b"other"),
        (f"other {hub.token('ann', 'other')}", b"other"),
        (f"acme {admin}", b"acme"),
    ):
        assert await client.ask("ping", credential) == [b"Pong", hub_name]
        await client.ask("subscribe", credential, "news", '{"start": "first"}')
        expected = b"of acme" if hub_name == b"acme" else b"of the other"
        assert (await client.get(credential, "news"))[3] == expected


async def test_a_get_waits_for_the_next_message(
    hub: RunningHub, clients: ZeroMqClients, client: ZeroMqClient
) -> None:
    await client.ask("subscribe", "acme", "orders")
    waiting = clients.make()
    await waiting.send("get", "acme", "orders", '{"wait": 60}')
    assert await client.ask("ping") == [b"Pong", b""]  # others go on meanwhile
    assert await client.get("acme", "orders", wait=0.05) == [b"EmptyTopic", b"orders"]
    await client.put("acme", "orders", "at last")
    assert (await waiting.receive())[3] == b"at last"


async def test_a_dealer_may_have_many_requests_under_way(clients: ZeroMqClients) -> None:
    dealer = clients.make(zmq.DEALER)
    await dealer.send("slow", "", "subscribe", "acme", "orders")
    assert (await dealer.receive())[:3] == [b"slow", b"", b"SUBSCRIBED"]
    await dealer.send("waits", "", "get", "acme", "orders", '{"wait": 60}')
    for number in range(50):
        options = json.dumps({"producer": "p", "sequence": number + 1})
        await dealer.send(f"put {number}", "hop", "", "put", "acme", "orders", "x", options)
    answers = [await dealer.receive() for _ in range(51)]
    assert {frames[0].decode() for frames in answers} == {
        "waits",
        *(f"put {number}" for number in range(50)),
    }
    puts = [frames for frames in answers if frames[0].startswith(b"put")]
    assert [int(frames[5]) for frames in puts] == [*range(1, 51)]
    assert all(frames[1:4] == [b"hop", b"", b"PutReply"] for frames in puts)


async def test_what_a_vanished_consumer_was_to_get_goes_to_another_at_once(
    hub: RunningHub, clients: ZeroMqClients, client: ZeroMqClient
) -> None:
    """Without waiting for its lease of an hour to run out."""
    options = '{"shared": true, "leaseSeconds": 3600}'
    await client.ask("subscribe", "acme", "jobs", options)
    vanishing = clients.make()
    await vanishing.send("get", "acme", "jobs", '{"wait": 60, "consumer": "gone"}')
    door = hub.server.door
    assert door is not None
    await until(lambda: door.waiting == 1)
    assert connections(hub) == 2
    vanishing.vanish()
    # libzmq notices on a thread of its own; an answer that is on its way by then is lost.
    await until(lambda: connections(hub) == 1)
    await client.put("acme", "jobs", "work")
    await until(lambda: door.undelivered == 1)
    article = await client.get("acme", "jobs", consumer="here", wait=10)
    assert article[:4] == [b"TopicArticle", b"jobs", b"1", b"work"]
    assert json.loads(article[4])["redelivered"]


async def test_a_client_that_went_away_and_came_back_asks_again(
    hub: RunningHub, clients: ZeroMqClients
) -> None:
    """As a REQ client does after its time-out: the same request, on a new socket."""
    for _ in range(3):
        lost = clients.make()
        await lost.send("put", "acme", "orders", "x", '{"producer": "p", "sequence": 1}')
        lost.vanish()
    client = clients.make()
    assert await client.put("acme", "orders", "x", producer="p", sequence=1) == 1
    await client.ask("subscribe", "acme", "orders", '{"start": "first"}')
    both = await client.get("acme", "orders", limit=10)
    assert len(both) == 5


async def test_only_an_administrator_of_all_hubs_shuts_the_server_down(
    hub: RunningHub, client: ZeroMqClient
) -> None:
    for credential in (
        hub.token("ann"),
        hub.token("ann", level=Level.SERVICE),
        hub.token("ann", level=Level.ADMIN),
    ):
        code, _ = await client.refused("shutdown", credential)
        assert code == "not_permitted"
    for credential in ("acme", ""):
        code, _ = await client.refused("shutdown", credential)
        assert code == "not_authenticated"
    assert not hub.server.stop_requested.is_set()
    assert await client.ask("shutdown", hub.token("root", "*", Level.ADMIN)) == [b"Shutdown"]
    await until(hub.server.stop_requested.is_set)


async def test_a_server_that_stops_answers_what_it_has_begun(
    start_server: StartHub,
) -> None:
    hub = await start_server(topic_hub(), zeromq__endpoint=ANY_PORT)
    async with zeromq_clients(hub) as clients:
        dealer, waiting = clients.make(zmq.DEALER), clients.make()
        await dealer.ask("", "subscribe", "acme", "orders")
        await waiting.send("get", "acme", "orders", '{"wait": 60}')
        door = hub.server.door
        assert door is not None
        await until(lambda: door.waiting == 1)
        for number in range(50):
            await dealer.send(str(number), "", "put", "acme", "other", "x")
        answers = [await dealer.receive()]
        await hub.server.stop()
        assert (await waiting.receive())[:2] == [b"ERROR", b"going_away"]
        while await dealer.socket.poll(100):
            answers.append(await dealer.receive())
    assert answers[0][2] == b"PutReply"
    refused = [frames[3] for frames in answers if frames[2] != b"PutReply"]
    assert set(refused) <= {b"going_away"}


@pytest.mark.spec("ONCE-02")
async def test_a_put_whose_reply_was_lost_with_the_server_is_stored_once(tmp_path: Path) -> None:
    """SIGKILL between the put and its repetition, with the documented resend."""
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    rules = {"public": True, "clientPublish": True, "allowAnonymous": True, "store": True}
    hubs = {
        "acme": {
            "settings": {"allowAnonymous": True, "defaultRules": "all"},
            "rules": {"all": rules},
        }
    }
    async with HubProcess(tmp_path, hubs, zeromq={"endpoint": endpoint}) as process:
        await process.start()
        clients = ZeroMqClients(endpoint)
        try:
            client = clients.make()
            await client.ask("subscribe", "acme", "orders")
            assert await client.put("acme", "orders", "a", producer="p", sequence=1) == 1
            await process.kill()
            await process.start()
            client = clients.make()
            assert await client.put("acme", "orders", "a", producer="p", sequence=1) == 1
            assert await client.put("acme", "orders", "b", producer="p", sequence=2) == 2
            articles = await client.get("acme", "orders", limit=10)
            assert articles[3::4] == [b"a", b"b"]
        finally:
            clients.close()
