"""Whatever comes in over ZeroMQ, the sender is told what is wrong, and nobody else notices."""

from __future__ import annotations

import json
import os
import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import zmq

from harness.running_hub import RunningHub, hub_settings, open_hub
from harness.topics import topic_hub, until
from harness.zeromq import ANY_PORT, Frame, ZeroMqClients, zeromq_clients
from hubbub.domain.errors import catalogue
from hubbub.domain.permissions import Level
from hubbub.server.wiring import Server

pytestmark = [pytest.mark.spec("ONCE-04"), pytest.mark.asyncio(loop_scope="module")]

LIMITS = {"zeromq__maxMessageBytes": 64 * 1024, "zeromq__maxInFlightPerPeer": 10}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningHub]:
    """One for all tests here: what is wrong with one must not harm the next."""
    folder = tmp_path_factory.mktemp("zeromq")
    hubs = (topic_hub(), open_hub("closed", allow_anonymous=False))
    settings = hub_settings(folder, *hubs, zeromq__endpoint=ANY_PORT, **LIMITS)
    server = Server(settings)
    await server.start()
    running = RunningHub(server)
    yield running
    await running.close()


@pytest_asyncio.fixture(loop_scope="module")
async def clients(hub: RunningHub) -> AsyncIterator[ZeroMqClients]:
    async with zeromq_clients(hub) as made:
        yield made
        # Whatever happened, others are served.
        assert await made.make().ask("ping", "acme") == [b"Pong", b"acme"]


@pytest.mark.parametrize(
    ("frames", "code", "said"),
    [
        ((b"",), "malformed", "there is no command ''"),
        (("ping", "a", "b"), "malformed", "ping has 2 frames"),
        (("get",), "malformed", "get has no credential"),
        (("fetch", "acme", "t"), "malformed", "there is no command 'fetch'"),
        ((os.urandom(50) + b"\xff", os.urandom(50)), "malformed", "not UTF-8"),
        (("put", "acme", "t"), "malformed", "expected credential, topic, payload, [options]"),
        (("put", "acme", b"\xff\xfe", "x"), "malformed", "the topic is not UTF-8"),
        (("put", "acme", "", "x"), "invalid_name", "the topic name is empty"),
        (("put", "acme", "a\x00b", "x"), "invalid_name", "control characters"),
        (("put", "acme", "t" * 300, "x"), "invalid_name", "300 characters"),
        (("subscribe", "acme", "a*"), "invalid_name", "'*'"),
        (("get", "", "t"), "not_authenticated", "the credential is empty"),
        (("get", "nowhere", "t"), "not_authenticated", "wants a token"),
        (("get", "closed", "t"), "not_authenticated", "wants a token"),
        (("get", "eyJh.eyJh.abcd", "t"), "invalid_token", "token"),
        (("get", "acme eyJh.eyJh.abcd", "t"), "invalid_token", "token"),
        (("get", "a" * 300, "t"), "invalid_name", "300 characters"),
        (("get", b"\xff", "t"), "malformed", "the credential is not UTF-8"),
        (("get", "x" * 30_000, "t"), "too_large", "the credential has 30000 bytes"),
        (("ack", "acme", "t", "-1"), "malformed", "the serial is '-1'"),
        (("ack", "acme", "t", "9" * 30), "malformed", "the serial is '9999"),
        (("ack", "acme", "t", "seven"), "malformed", "the serial is 'seven'"),
        (("get", "acme", "t", "{'limit': 1}"), "malformed", "not a JSON object"),
        (("get", "acme", "t", "null"), "malformed", "not a JSON object"),
        (("get", "acme", "t", '{"limit": 1.5}'), "malformed", "$.limit"),
        (("get", "acme", "t", '{"colour": 1}'), "bad_request", "no option 'colour'"),
        (("subscribe", "acme", "t", '{"leaseSeconds": 1e300}'), "bad_request", "leaseSeconds"),
        (("subscribe", "acme", "t", '{"maxUnacknowledged": 0}'), "bad_request", "maxUnack"),
        (("subscribe", "acme", "t", '{"maxDeliveries": 9999}'), "bad_request", "maxDeliveries"),
        (("subscribe", "acme", "t", '{"start": 12345}'), "bad_request", "start is 12345"),
        (("put", "acme", "t", "x", '{"contentType": "application/json"}'), "invalid_payload", ""),
        (("open", "acme", "t", "a\nb"), "invalid_name", "the producer name"),
        (("put", "acme", "t", b"x" * 70_000), "too_large", "the message has 70"),
        (("put", *["x"] * 999), "malformed", "put has 999 frames"),
    ],
)
async def test_what_is_wrong_is_told(
    clients: ZeroMqClients, frames: tuple[Frame, ...], code: str, said: str
) -> None:
    told, message = await clients.make().refused(*frames)
    assert told == code, message
    assert said in message


async def test_an_acknowledgement_of_what_was_never_there_is_refused(
    clients: ZeroMqClients,
) -> None:
    client = clients.make()
    await client.ask("subscribe", "acme", "acks")
    await client.put("acme", "acks", "the only one")
    for serial, options in (("999999999999999999", ""), ("2", ""), ("2", '{"upTo": true}')):
        answer = await client.ask("ack", "acme", "acks", serial, options)
        assert answer[0] == b"ERROR" or answer[2] in (b"0", b"1"), answer
    assert (await client.ask("ack", "acme", "acks", "1"))[:2] == [b"Ack", b"acks"]
    await client.put("acme", "acks", "the next one")
    assert (await client.get("acme", "acks"))[3] == b"the next one"


async def test_tokens_of_another_hub_and_of_nobody_are_refused(
    hub: RunningHub, clients: ZeroMqClients
) -> None:
    client = clients.make()
    closed = hub.token("ann", "closed")
    forged = closed[:-4] + ("AAAA" if closed[-4:] != "AAAA" else "BBBB")
    gone = hub.token("ann", "nowhere")
    for credential, code in (
        (f"acme {closed}", "invalid_token"),
        (forged, "invalid_token"),
        (f"closed {forged}", "invalid_token"),
        (gone, "hub_not_found"),
        (hub.token(None, "*", Level.ADMIN), "invalid_token"),
    ):
        told, message = await client.refused("get", credential, "t")
        assert told == code, message
        assert credential not in message


async def test_frames_without_an_empty_one_before_them_are_answered(
    clients: ZeroMqClients,
) -> None:
    dealer = clients.make(zmq.DEALER)
    for frames in (("ping", "acme"), ("x",), tuple("abcdefghijkl"), ("x" * 300, "", "ping")):
        empty, name, code, message = await dealer.ask(*frames)
        assert (empty, name, code) == (b"", b"ERROR", b"malformed")
        assert b"no empty frame" in message
    assert await dealer.ask("") == [
        b"",
        b"ERROR",
        b"malformed",
        "the message has no command; send: command, credential, topic, …".encode(),
    ]
    assert await dealer.ask("a", "b", "") == [
        b"a",
        b"b",
        b"",
        b"ERROR",
        b"malformed",
        "the message has no command; send: command, credential, topic, …".encode(),
    ]


async def test_a_client_with_an_identity_of_its_own_is_refused(clients: ZeroMqClients) -> None:
    """Another could take the identity over, and with it the answers."""
    code, message = await clients.make(identity=b"till-4").refused("ping", "acme")
    assert code == "malformed"
    assert "identity" in message


async def test_a_thousand_frames_are_one_error(clients: ZeroMqClients) -> None:
    dealer = clients.make(zmq.DEALER)
    assert (await dealer.ask("", *["x"] * 1000))[1:3] == [b"ERROR", b"malformed"]
    assert (await dealer.ask(*["x"] * 1000))[1:3] == [b"ERROR", b"malformed"]


async def test_a_frame_that_no_one_could_answer_ends_the_connection_only(
    clients: ZeroMqClients,
) -> None:
    """libzmq cuts it off; the next request of the same client is on a new connection."""
    huge = clients.make(zmq.DEALER)
    await huge.send("", "put", "acme", "t", b"x" * 10_000_000)
    assert await clients.make().ask("ping") == [b"Pong", b""]
    assert not await huge.socket.poll(100)


async def test_a_client_that_floods_is_told_to_wait_and_others_are_served(
    hub: RunningHub, clients: ZeroMqClients
) -> None:
    await clients.make().ask("subscribe", "acme", "flood")
    flooding = clients.make(zmq.DEALER, sndhwm=0, rcvhwm=0)
    for number in range(20):
        await flooding.send(str(number), "", "get", "acme", "flood", '{"wait": 60}')
    for _ in range(10):
        assert (await flooding.receive())[2:4] == [b"ERROR", b"overloaded"]
    door = hub.server.door
    assert door is not None
    assert door.waiting == 10
    for number in range(1000):
        await flooding.send(str(number), "", "get", "acme", "flood", '{"wait": 60}')
    other = clients.make()
    assert await other.put("acme", "flood", "for all who wait") == 1
    assert (await other.get("acme", "flood"))[3] == b"for all who wait"
    await until(lambda: door.waiting == 0)


async def test_a_client_that_never_reads_holds_up_nobody(
    hub: RunningHub, clients: ZeroMqClients
) -> None:
    door = hub.server.door
    assert door is not None
    deaf = clients.make(zmq.DEALER, sndhwm=0, rcvhwm=1, rcvbuf=4096)
    quick = clients.make()
    await quick.put("acme", "bulk", b"x" * 40_000)
    await quick.ask("subscribe", "acme", "bulk", '{"start": "first"}')
    before = door.undelivered
    for _ in range(2000):
        await deaf.send("", "get", "acme", "bulk")
    assert await quick.ask("ping") == [b"Pong", b""]
    assert (await quick.get("acme", "bulk"))[0] == b"TopicArticle"
    await until(lambda: door.undelivered > before)


async def test_any_bytes_are_answered(clients: ZeroMqClients) -> None:
    codes = {code.encode() for code in catalogue()}
    generator = random.Random(20261115)
    words = [b"put", b"get", b"ack", b"subscribe", b"open", b"acme", b"t", b"1", b"{}", b""]
    client = clients.make()
    for _ in range(300):
        frames = tuple(
            generator.choice(words)
            if generator.random() < 0.7
            else generator.randbytes(generator.randrange(40))
            for _ in range(generator.randrange(1, 7))
        )
        answer = await client.ask(*frames)
        if answer[0] == b"ERROR":
            assert answer[1] in codes - {b"internal"}, (frames, answer)
        else:
            assert answer[0].isalpha(), (frames, answer)


async def test_an_error_about_options_shows_what_there_is(clients: ZeroMqClients) -> None:
    _, message = await clients.make().refused("get", "acme", "t", json.dumps({"Wait": 1}))
    assert message == (
        "get has no option 'Wait'; it has ackUpTo, after, consumer, limit, subscription, wait"
    )
