"""Documents between nodes: on a network that misbehaves, over a store that fails, and while a
channel's owner changes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import jsonpatch
import pytest

from harness.engine import Alone, Cluster, EngineNode, FakeConnection, receive, subscribe
from harness.moving import MovingCluster
from harness.running_hub import OPEN, open_hub
from harness.unreliable import STORMY, Faults
from hubbub.domain.asking import OwnerRequest
from hubbub.domain.documents.changes import PATCH, ChangeOptions, DocumentQuery
from hubbub.domain.documents.requests import ApplyChange
from hubbub.domain.documents.text import JsonList
from hubbub.domain.errors import StaleOwner, StoreUnavailable, VersionMismatch
from hubbub.domain.messages import Message
from hubbub.domain.notices import (
    DocumentChangeResult,
    DocumentFound,
    DocumentInfo,
    DocumentUpdated,
)
from hubbub.domain.permissions import Identity, Level
from hubbub.domain.requests import ChangeDocument, DocumentGet, Producer
from hubbub.engine.documents.service import Documents
from hubbub.ports.bus import PublishOutcome

pytestmark = pytest.mark.spec("DOC-03")

SERVICE = Identity(user_id="shop", level=Level.SERVICE)
SEEDS = [31, 32, 33]


def add(path: str, value: Any) -> JsonList:
    return JsonList(json.dumps([{"op": "add", "path": path, "value": value}]).encode())


def send(connection: FakeConnection, channel: str, ops: JsonList, **more: Any) -> None:
    receive(connection, ChangeDocument(channel, ops, req_id=1, **more))


async def change(
    connection: FakeConnection, channel: str, ops: JsonList, **more: Any
) -> DocumentChangeResult:
    before = len(connection.all(DocumentChangeResult))
    send(connection, channel, ops, **more)
    return await connection.next(DocumentChangeResult, before + 1)


async def get(connection: FakeConnection, channel: str, **more: Any) -> DocumentFound:
    before = len(connection.all(DocumentFound))
    receive(connection, DocumentGet(channel, req_id=2, **more))
    return await connection.next(DocumentFound, before + 1)


async def document(node: EngineNode, channel: str) -> Any:
    """The document, as a client of this node reads it."""
    found = await get(node.connect(), channel)
    assert found.document is not None, found
    return json.loads(found.document.text)


def versions(connection: FakeConnection) -> list[int]:
    return [update.version for update in connection.all(DocumentUpdated)]


def copy_of(connection: FakeConnection) -> Any:
    """What a client has that applied every update, with another library."""
    copy: Any = {}
    for update in connection.all(DocumentUpdated):
        copy = jsonpatch.apply_patch(copy, json.loads(update.ops.text))
    return copy


async def heard(connection: FakeConnection, version: int) -> None:
    await connection.until(lambda: versions(connection)[-1:] == [version])


async def delete(node: EngineNode, channel: str) -> None:
    hub = node.node.hub("acme")
    options = ChangeOptions("delete", from_hub=True)
    await node.node.feature(Documents).settle(hub, SERVICE, channel, b"", options)


# -- a network that loses, doubles and reorders ---------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
async def test_both_nodes_tell_every_change_once_and_in_order(tmp_path: Path, seed: int) -> None:
    async with Cluster(tmp_path, seed=seed, faults=STORMY) as cluster:
        channel = cluster.channel_of("west", "doc:list")
        followers = [await node.subscribe(channel) for node in cluster.nodes.values()]
        writers = [node.connect() for node in cluster.nodes.values()]
        for number in range(20):
            for at, writer in enumerate(writers):
                send(writer, channel, add(f"/{at}/-", number))
        expected = {"0": list(range(20)), "1": list(range(20))}
        for follower in followers:
            await heard(follower, 40)
            assert versions(follower) == list(range(1, 41))
            assert copy_of(follower) == expected
            assert len(follower.all(DocumentInfo)) == 1
        for node in cluster.nodes.values():
            assert await document(node, channel) == expected


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_subscriber_that_names_its_version_misses_nothing_while_others_change(
    tmp_path: Path, seed: int
) -> None:
    async with Cluster(tmp_path, seed=seed, faults=STORMY) as cluster:
        channel = cluster.channel_of("west", "doc:list")
        writer = cluster.nodes["west"].connect()
        for number in range(10):
            send(writer, channel, add("/n/-", number))
        await writer.next(DocumentChangeResult, 10)
        epoch = writer.all(DocumentChangeResult)[-1].epoch
        late = []
        for number in range(10, 60):
            send(writer, channel, add("/n/-", number))
            if number % 10 == 0:
                connection = cluster.nodes["east"].connect()
                position = {"document_version": 4, "document_epoch": epoch}
                await subscribe(connection, channel, **position)
                late.append(connection)
        for connection in late:
            await heard(connection, 60)
            assert versions(connection) == list(range(5, 61))
            assert len(connection.all(DocumentInfo)) == 1


async def test_a_change_while_a_subscription_is_prepared_is_told_to_who_has_the_version_before(
    tmp_path: Path,
) -> None:
    """The session has the newest version; the next one comes before its subscription begins."""
    async with Alone(tmp_path) as alone:
        writer = alone.node.connect()
        epoch = (await change(writer, "doc:list", add("/a", 1))).epoch
        follower = await alone.node.subscribe("doc:list")
        original = alone.node.bus.ask

        async def slow(query: OwnerRequest[Any], /) -> Any:
            answer = await original(query)
            if isinstance(query, DocumentQuery) and query.since is not None:
                await change(writer, "doc:list", add("/a", 2))
                await heard(follower, 2)
            return answer

        alone.node.bus.ask = slow  # type: ignore[method-assign]
        late = alone.node.connect()
        await subscribe(late, "doc:list", document_version=1, document_epoch=epoch)
        await heard(late, 2)
        assert (await late.next(DocumentInfo)).version == 2


async def test_a_node_that_was_cut_off_is_told_what_it_missed(tmp_path: Path) -> None:
    async with Cluster(tmp_path, seed=3) as cluster:
        channel = cluster.channel_of("west", "doc:list")
        far = await cluster.nodes["east"].subscribe(channel)
        near = cluster.nodes["west"].connect()
        cluster.network.cut.add(("west", "east"))
        for number in range(100):
            send(near, channel, add("/n", number))
        await near.next(DocumentChangeResult, 100)
        cluster.network.cut.clear()
        await heard(far, 100)
        assert versions(far) == list(range(1, 101))
        assert len(far.all(DocumentInfo)) == 1, "although the document is smaller than its changes"


async def test_where_the_missed_changes_are_too_many_the_node_says_where_the_document_stands(
    tmp_path: Path,
) -> None:
    async with Cluster(tmp_path, seed=3) as cluster:
        channel = cluster.channel_of("west", "doc:list")
        far = await cluster.nodes["east"].subscribe(channel)
        near = cluster.nodes["west"].connect()
        cluster.network.cut.add(("west", "east"))
        for number in range(10):
            await change(near, channel, add("/text", str(number) * 20_000))
        cluster.network.cut.clear()
        info = await far.next(DocumentInfo, 2)
        assert (info.version, versions(far)) == (10, [])
        found = await get(far, channel)
        assert (found.epoch, found.version) == (info.epoch, 10)
        await change(near, channel, add("/text", ""))
        await heard(far, 11)


async def test_a_deleted_document_begins_a_new_epoch_on_every_node(tmp_path: Path) -> None:
    async with Cluster(tmp_path, seed=4, faults=STORMY) as cluster:
        channel = cluster.channel_of("west", "doc:list")
        followers = [await node.subscribe(channel) for node in cluster.nodes.values()]
        writer = cluster.nodes["east"].connect()
        first = await change(writer, channel, add("/a", 1))
        for follower in followers:
            await heard(follower, 1)
        await delete(cluster.nodes["east"], channel)
        for follower in followers:
            gone = await follower.next(DocumentInfo, 2)
            assert gone.version == 0
            assert gone.epoch != first.epoch
        again = await change(writer, channel, add("/b", 2))
        assert (again.version, again.epoch != first.epoch) == (1, True)
        for follower in followers:
            update = await follower.next(DocumentUpdated, 2)
            assert (update.version, update.epoch) == (1, again.epoch)


# -- a store that fails ---------------------------------------------------------------------------


async def test_nobody_is_told_a_version_that_is_not_on_disk(tmp_path: Path) -> None:
    """Who subscribes while a change is on its way to the disk hears of the version before."""
    async with Cluster(tmp_path, seed=5) as cluster:
        channel = cluster.channel_of("west", "doc:list")
        writer = cluster.nodes["west"].connect()
        assert (await change(writer, channel, add("/a", 1))).version == 1
        cluster.store.held = held = asyncio.Event()
        send(writer, channel, add("/a", 2))
        await until_append(cluster.store.batches, 2)
        followers = [await node.subscribe(channel) for node in cluster.nodes.values()]
        cluster.store.failing = StoreUnavailable("in this test")
        cluster.store.held = None
        held.set()
        assert isinstance((await writer.next(DocumentChangeResult, 2)).error, StoreUnavailable)
        cluster.store.failing = None
        assert (await change(writer, channel, add("/a", 3))).version == 2
        for follower in followers:
            assert (await follower.next(DocumentInfo)).version == 1
            await heard(follower, 2)
            (update,) = follower.all(DocumentUpdated)
            assert json.loads(update.ops.text)[0]["value"] == 3


async def until_append(batches: list[Any], count: int) -> None:
    async with asyncio.timeout(30):
        while len(batches) < count:
            await asyncio.sleep(0)


@pytest.mark.spec("DOC-03", "a refusal is judged again if what it was judged against is not stored")
async def test_a_refusal_is_judged_again_where_the_append_failed(tmp_path: Path) -> None:
    """In its place: before what came later."""
    async with Alone(tmp_path) as alone:
        channel = "doc:list"
        writer = alone.node.connect()
        first, second, third, fourth = (alone.node.connect() for _ in range(4))
        await change(writer, channel, add("/n", 0))
        alone.store.held = held = asyncio.Event()
        send(first, channel, add("/n", 1))
        send(second, channel, add("/n", 2), expected_version=1)  # refused: the first made it 2
        send(third, channel, add("/n", 3), expected_version=1)
        await until_append(alone.store.batches, 2)
        send(fourth, channel, add("/n", 4), expected_version=1)
        alone.store.failing = StoreUnavailable("in this test")
        held.set()
        failed = await first.next(DocumentChangeResult)
        assert isinstance(failed.error, StoreUnavailable)
        assert not second.all(DocumentChangeResult), "it waits until the document is read again"
        alone.store.failing = alone.store.held = None
        accepted = await second.next(DocumentChangeResult)
        assert (accepted.error, accepted.version) == (None, 2)
        for later in (third, fourth):
            refused = await later.next(DocumentChangeResult)
            assert isinstance(refused.error, VersionMismatch)
            assert refused.version == 2
        assert await document(alone.node, channel) == {"n": 2}


@pytest.mark.spec("DOC-03", "a refused change uses up no sequence, also when it is judged again")
async def test_a_producers_refused_change_is_judged_again(tmp_path: Path) -> None:
    async with Alone(tmp_path) as alone:
        channel = "doc:list"
        first, second = alone.node.connect(), alone.node.connect()
        await change(first, channel, add("/n", 0))
        await change(second, channel, add("/p", 0), producer=Producer("p", 1))
        alone.store.held = held = asyncio.Event()
        send(first, channel, add("/n", 1))
        send(second, channel, add("/n", 2), expected_version=2, producer=Producer("p", 2))
        await until_append(alone.store.batches, 3)
        alone.store.failing = StoreUnavailable("in this test")
        held.set()
        await first.next(DocumentChangeResult, 2)
        alone.store.failing = alone.store.held = None
        accepted = await second.next(DocumentChangeResult, 2)
        assert (accepted.error, accepted.version, accepted.duplicate) == (None, 3, False)
        again = await change(
            second, channel, add("/n", 2), expected_version=2, producer=Producer("p", 2)
        )
        assert (again.error, again.version, again.duplicate) == (None, 3, True)


# -- an owner that dies ---------------------------------------------------------------------------


@pytest.mark.spec("DOC-03", "failover", "CLU-04")
@pytest.mark.parametrize("seed", SEEDS)
async def test_the_successor_of_a_killed_owner_goes_on_in_the_same_epoch(
    tmp_path: Path, seed: int
) -> None:
    faults = Faults(lost=0.02, doubled=0.1, longest_delay_seconds=0.002)
    async with MovingCluster(tmp_path, seed=seed, faults=faults) as cluster:
        channel = cluster.channel_of("west", "doc:list")
        far = await cluster.nodes["east"].subscribe(channel)
        writer = cluster.nodes["north"].connect()
        epoch = (await change(writer, channel, add("/n/-", 1))).epoch
        for number in range(2, 11):
            assert (await change(writer, channel, add("/n/-", number))).version == number
        await cluster.kill("west")
        number, last = 11, 10
        while last < 20:  # some may fail where the machine stood still for a while
            said = await change(
                writer, channel, add("/n/-", number), producer=Producer("p", number - 10)
            )
            if said.error is None:
                assert said.epoch == epoch
                number, last = number + 1, said.version or 0
        await heard(far, 20)
        assert versions(far) == list(range(1, 21))
        assert copy_of(far) == {"n": list(range(1, 21))}
        assert len(far.all(DocumentInfo)) == 1
        late = cluster.other_than("east", "west").connect()
        await subscribe(late, channel, document_version=7, document_epoch=epoch)
        assert versions(late) == list(range(8, 21))


async def stored(cluster: MovingCluster, channel: str, version: int) -> None:
    async with asyncio.timeout(30):
        while True:
            found = await cluster.store.read_document("acme", channel)
            if found is not None and found.version == version:
                return
            await asyncio.sleep(0)


@pytest.mark.spec("DOC-03", "killed between commit and broadcast", "CLU-04")
async def test_a_change_that_was_stored_and_not_told_before_its_owner_died_is_told_once(
    tmp_path: Path,
) -> None:
    async with MovingCluster(tmp_path, hubs=[open_hub(rules=OPEN)]) as cluster:
        channel = cluster.channel_of("west", "doc:list")
        far = await cluster.nodes["east"].subscribe(channel)
        writer = cluster.nodes["north"].connect()
        first = await change(writer, channel, add("/n", 1), producer=Producer("p", 1))
        cluster.store.delayed_answers = answers = asyncio.Event()
        try:
            send(writer, channel, add("/n", 2), producer=Producer("p", 2))
            await stored(cluster, channel, 2)
            cluster.network.cut |= {("west", "east"), ("west", "north")}
            cluster.store.delayed_answers = None
            await cluster.kill("west")
            await heard(far, 2)
            other = cluster.nodes["east"].connect()
            again = await change(other, channel, add("/n", 2), producer=Producer("p", 2))
            assert (again.error, again.version, again.duplicate) == (None, 2, True)
            assert again.epoch == first.epoch
            following = await change(other, channel, add("/n", 3), producer=Producer("p", 3))
            assert (following.version, following.duplicate) == (3, False)
            await heard(far, 3)
            assert versions(far) == [1, 2, 3]
        finally:
            answers.set()


@pytest.mark.spec("DOC-03", "an owner that lost its partition writes nothing")
async def test_a_former_owner_can_not_change_a_document(tmp_path: Path) -> None:
    async with MovingCluster(tmp_path) as cluster:
        channel = cluster.channel_of("west", "doc:list")
        writer = cluster.nodes["north"].connect()
        await change(writer, channel, add("/n", 1))
        old = cluster.nodes["west"]
        cluster.network.cut |= {("west", other) for other in ("east", "north")}
        cluster.network.cut |= {(other, "west") for other in ("east", "north")}
        await cluster.lost("west")
        said = await change(writer, channel, add("/n", 2))
        assert said.version == 2
        answered: asyncio.Future[PublishOutcome] = asyncio.get_running_loop().create_future()
        late = Message("m", "acme", channel, "", add("/n", 9).text, PATCH, 0)
        old.owner.publish(ApplyChange(late, ChangeOptions()), answered.set_result)
        assert isinstance((await answered).error, StaleOwner)
        assert await document(cluster.nodes["east"], channel) == {"n": 2}
