"""The bus's contract between two nodes over a real NATS server; and what its transport adds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from contract.bus_contract import HUB, SMALL, BusContract, Place, message, publish
from contract.test_remote_bus import IMPATIENT, place_of
from harness.engine import ANSWER_SECONDS, Cluster
from harness.nats import SECRET, NatsNetwork, nats_server
from hubbub.cluster.nats_connection import NatsConnection
from hubbub.cluster.nats_settings import NatsSettings
from hubbub.cluster.nats_transport import NatsTransport
from hubbub.cluster.sealing import CLOCK_TOLERANCE_SECONDS, Seals
from hubbub.domain.errors import Unavailable
from hubbub.domain.secret import Secret
from hubbub.server.nats_server import NatsServer


class Inbox:
    """What a node was sent."""

    def __init__(self) -> None:
        self.data: list[bytes] = []
        self._more = asyncio.Event()

    def put(self, data: bytes) -> None:
        self.data.append(data)
        self._more.set()

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(ANSWER_SECONDS):
            while not condition():
                self._more.clear()
                await self._more.wait()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NatsServer]:
    async with nats_server(tmp_path_factory.mktemp("nats")) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(
    server: NatsServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Cluster]:
    network = NatsNetwork(server.options)
    path = tmp_path_factory.mktemp("nodes")
    async with Cluster(path, hubs=[HUB, SMALL], transport_of=network.transport) as cluster:
        yield cluster
    await network.close()


@pytest.mark.spec("CLU-01")
class TestOverNats(BusContract):
    @pytest.fixture
    def place(self, cluster: Cluster, request: pytest.FixtureRequest) -> Place:
        return place_of(cluster, request.node.name)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_datagram_that_is_larger_than_a_message_may_be_arrives_whole(
    server: NatsServer,
) -> None:
    network, inbox = NatsNetwork(server.options), Inbox()
    sender, receiver = await network.transport("a"), await network.transport("b")
    receiver.listen(inbox.put)
    large = bytes(range(256)) * 120_000  # 30 MB, where the server takes 8
    sender.send("b", b"before")
    sender.send("b", large)
    sender.send("b", b"after")
    await inbox.until(lambda: len(inbox.data) == 3)
    assert inbox.data == [b"before", large, b"after"]
    await network.close()


@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_said_to_all_is_heard_by_all_with_the_name_of_who_said_it(
    server: NatsServer,
) -> None:
    network, heard = NatsNetwork(server.options), Inbox()
    transports = [await network.transport(name) for name in "abc"]
    for transport in transports:
        transport.listen_to_all(
            lambda sender, data: heard.put(sender.encode() + b":" + data), lambda node, life: None
        )
    transports[0].say_to_all(b"hello")
    await heard.until(lambda: heard.data == [b"a:hello"] * 3)
    await network.close()


@pytest.mark.spec("CLU-06")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_stranger_without_the_secret_is_not_heard(server: NatsServer) -> None:
    network, strangers = NatsNetwork(server.options), NatsNetwork(server.options, "a guess" * 5)
    inbox = Inbox()
    receiver = await network.transport("b")
    receiver.listen(inbox.put)
    await _say(await strangers.transport("a"), "b", b"a lie")
    await _say(await network.transport("a"), "b", b"the truth")
    await inbox.until(lambda: inbox.data)
    assert inbox.data == [b"the truth"]
    await network.close()
    await strangers.close()


async def _say(transport: NatsTransport, node: str, data: bytes) -> None:
    transport.send(node, data)
    await transport._connection._client.flush()


@pytest.mark.spec("CLU-06")
def test_nothing_can_be_said_again_changed_or_readdressed() -> None:
    now = 1000.0
    east = Seals("east", "life", "c", SECRET, lambda: now)
    west = Seals("west", "life", "c", SECRET, lambda: now)
    north = Seals("north", "life", "c", SECRET, lambda: now)
    first, second = east.close("west", (b"1",)), east.close("west", (b"2",))
    for at in range(len(first)):
        changed = bytearray(first)
        changed[at] ^= 1
        assert west.open(bytes(changed)) is None
    assert west.open(b"") is None
    assert north.open(first) is None, "it is meant for another"
    opened = west.open(first)
    assert opened is not None
    assert opened.datagrams == (b"1",)
    assert west.open(first) is None, "it was said before"
    assert west.open(second) is not None
    assert Seals("west", "l", "other", SECRET, lambda: now).open(first) is None, "another cluster"


@pytest.mark.spec("CLU-06")
def test_an_old_recording_is_not_taken_for_a_new_node() -> None:
    recorded = Seals("east", "old life", "c", SECRET, lambda: 1000.0).close("west", (b"1",))
    later = 1000.0 + CLOCK_TOLERANCE_SECONDS + 1
    assert Seals("west", "life", "c", SECRET, lambda: later).open(recorded) is None


@pytest.mark.spec("CLU-06")
def test_many_refusals_do_not_hide_the_first_one_for_another_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    west = Seals("west", "life", "c", SECRET, lambda: 1000.0)
    for _ in range(5):
        west.open(b"a stranger's words, without a signature")
    west.open(Seals("east", "life", "c", SECRET, lambda: 5000.0).close("west", (b"1",)))
    said = [record.getMessage() for record in caplog.records]
    assert [text for text in said if "(1 so far): node 'east' has a clock" in text], said
    assert west.refused == 6


@pytest.mark.spec("CLU-06")
@pytest.mark.asyncio(loop_scope="module")
async def test_wrong_credentials_and_absent_servers_are_refused_clearly(
    server: NatsServer,
) -> None:
    short = msgspec.structs.replace(server.options, connect_seconds=0.5)
    wrong = NatsConnection(msgspec.structs.replace(short, password=Secret("wrong")), "test")
    with pytest.raises(Unavailable, match=r"broker\.host"):
        await wrong.open()
    await wrong.close()
    nowhere = NatsConnection(NatsSettings(host="nats://127.0.0.1:1", connect_seconds=0.3), "test")
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1"):
        await nowhere.open()
    await nowhere.close()


@pytest.mark.spec("CLU-01")
async def test_while_nats_is_away_requests_fail_clearly_and_afterwards_all_goes_on(
    tmp_path: Path,
) -> None:
    async with nats_server(tmp_path) as server:
        network = NatsNetwork(server.options)
        async with Cluster(
            tmp_path, hubs=[HUB], transport_of=network.transport, patience=IMPATIENT
        ) as cluster:
            place = place_of(cluster)
            (outcome,) = await publish(place.bus, message(1, place.channel))
            assert outcome.serial == 1
            await server.kill()
            (outcome,) = await publish(place.bus, message(2, place.channel))
            assert isinstance(outcome.error, Unavailable)
            near = cluster.channel_of("east")
            (outcome,) = await publish(place.bus, message(1, near))
            assert outcome.serial == 1, "a channel of the node's own needs no network"
            await server.start()
            async with asyncio.timeout(ANSWER_SECONDS):
                while outcome.error is not None or outcome.serial == 1:
                    (outcome,) = await publish(place.bus, message(3, place.channel))
            assert outcome.serial in (2, 3), "taken up once; the lost one perhaps before it"
        await network.close()
