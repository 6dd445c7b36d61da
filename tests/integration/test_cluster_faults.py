"""Nodes in processes of their own that are killed, frozen, stopped, and cut off from NATS."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from benchmarks.postgres import PASSWORD, LocalPostgres
from harness.cluster import (
    Crowd,
    Ground,
    NodeProcess,
    channel_of,
    eventually,
    ground,
    node_processes,
)
from harness.postgres import new_database
from harness.receivers import Receiver
from harness.running_hub import Socket
from hubbub.client.people import People
from hubbub.domain.errors import Unavailable
from hubbub.domain.names import COMMUNICATION_LOG, partition_of
from hubbub.domain.ring import make_ring
from hubbub.server.settings import load

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("CLU-04")]

NAMES = ("east", "north", "west")
HUBS: dict[str, Any] = {
    "acme": {
        "settings": {
            "allowAnonymous": True,
            "defaultRules": "kept",
            "callbackAddresses": "loopback",
        },
        "adapters": {"pager": {"kind": "rest"}},
        "rules": {
            "kept": {"public": True, "clientPublish": True, "allowAnonymous": True, "store": True},
            "room": {
                "public": True,
                "clientPublish": True,
                "allowAnonymous": True,
                "presence": True,
                "occupancy": True,
            },
        },
        "namespaces": {"room": "room"},
    }
}
Nodes = dict[str, NodeProcess]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nodes(on: Ground, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Nodes]:
    async with node_processes(tmp_path_factory.mktemp("nodes"), on, HUBS, *NAMES) as nodes:
        yield nodes


class Log:
    """What one subscriber hears of a channel, in order."""

    def __init__(self, socket: Socket, channel: str) -> None:
        self.socket = socket
        self.channel = channel
        self.numbers: list[int] = []
        self.serials: list[int] = []
        self.resets = 0

    async def until(self, number: int) -> None:
        while number not in self.numbers:
            envelope = await self.socket.next()
            payload = envelope["payload"]
            if envelope["event"] == "Publish" and payload["channel"] == self.channel:
                self.numbers.append(payload["payload"]["json"])
                self.serials.append(int(payload["channelSerial"]))
            elif envelope["event"] == "ChannelReset":
                self.resets += 1


async def put(socket: Socket, channel: str, number: int) -> bool:
    """Whether it was acknowledged."""
    result = await socket.publish(channel, {"json": number}, store=True)
    return bool(result["success"])


async def settled(nodes: Nodes, *names: str) -> None:
    """Wait until these nodes serve all channels."""
    for name in names:
        socket = await nodes[name].socket()
        for owner in NAMES:
            probe = channel_of(owner, NAMES, "probe")

            async def served(probe: str = probe, socket: Socket = socket) -> bool:
                return await put(socket, probe, 0)

            await eventually(served)


async def test_a_killed_owner_is_replaced_and_nothing_acknowledged_is_lost(
    nodes: Nodes,
) -> None:
    await settled(nodes, *NAMES)
    channel = channel_of("west", NAMES, "kill")
    far = Log(await nodes["east"].socket(), channel)
    await far.socket.subscribe(channel)
    speaker = await nodes["north"].socket()
    acknowledged = [number for number in range(20) if await put(speaker, channel, number)]
    assert acknowledged == list(range(20))
    nodes["west"].signal(signal.SIGKILL)
    attempts = iter(range(20, 10_000))

    async def accepted() -> bool:
        number = next(attempts)
        done = await put(speaker, channel, number)
        if done:
            acknowledged.append(number)
        return done

    away = await eventually(accepted)
    print(f"served again after {away * 1000:.0f} ms")
    await nodes["west"].ended()
    await far.until(acknowledged[-1])
    assert set(acknowledged) <= set(far.numbers)
    assert len(far.numbers) == len(set(far.numbers)), "nothing twice"
    assert far.serials == list(range(1, len(far.serials) + 1)), "and no gap"
    await nodes["west"].start()


@pytest.mark.spec("COMM-05", "COMM-11")
async def test_a_killed_owner_of_the_log_leaves_every_message_its_one_verdict_and_its_keys(
    nodes: Nodes,
) -> None:
    await settled(nodes, *NAMES)
    log = make_ring((node, "") for node in NAMES).owners[partition_of("acme", COMMUNICATION_LOG)]
    others = [name for name in NAMES if name != log]
    channel = channel_of(log, NAMES, "followed")
    token = await nodes[log].token("acme", "desk", "service")
    people = [People(f"http://127.0.0.1:{nodes[name].port}", "acme", token) for name in others]
    async with Receiver(lambda _: 503) as pager:
        await people[0].set_peer("ann", [{"adapter": "pager", "parameters": [pager.url]}])
        await people[0].follow("ann", channel)
        sent = {
            await each.send("x", to="ann", sender="component:ci", delivery_policy="ACKNOWLEDGED")
            for each in people  # at any node
        }
        speaker = await nodes[others[0]].socket()
        assert await put(speaker, channel, 7)

        async def handed_over() -> bool:
            return bool([each async for each in people[0].messages(sender=f"component:{channel}")])

        await eventually(handed_over)
        await pager.got(1)
        await nodes[log].kill()
        pager.respond = lambda _: 204
        reports: list[dict[str, Any]] = []

        async def decided() -> bool:
            try:
                found = [each["message"] async for each in people[1].messages(type="CONTROL")]
                (followed,) = [each async for each in people[1].followed("ann")]
            except Unavailable:
                return False
            reports[:] = found
            return len(found) >= 2 and followed["lag"] == 0

        await eventually(decided)
    await nodes[log].start()
    assert sorted(each["refersTo"] for each in reports) == sorted(sent)
    assert {each["subtype"] for each in reports} == {"ACK"}
    keys: dict[str, set[str]] = {}
    for request in pager.messages:
        message = json.loads(request.body)["message"]
        keys.setdefault(message["id"], set()).add(request.headers["idempotency-key"])
    assert sent < set(keys)
    assert len(keys) == 3, "and the one of the channel"
    assert all(len(each) == 1 for each in keys.values())


async def test_presence_forgets_who_was_connected_to_a_killed_node(nodes: Nodes) -> None:
    await settled(nodes, *NAMES)
    for owner in ("north", "west"):
        room = channel_of(owner, NAMES, f"room:{owner}")
        watcher, doomed = await nodes["east"].socket(), await nodes["west"].socket()
        await watcher.subscribe(room)
        await doomed.subscribe(room)
        crowd = Crowd(watcher)
        await crowd.until(lambda c: len(c.present) == 2 and c.count == 2)
        nodes["west"].signal(signal.SIGKILL)
        await nodes["west"].ended()
        await crowd.until(lambda c: len(c.present) == 1 and c.count == 1)
        await nodes["west"].start()
        await settled(nodes, *NAMES)


async def test_a_frozen_owner_is_replaced_and_cannot_write_when_it_wakes(nodes: Nodes) -> None:
    await settled(nodes, *NAMES)
    channel = channel_of("west", NAMES, "freeze")
    stale, far = await nodes["west"].socket(), Log(await nodes["east"].socket(), channel)
    await far.socket.subscribe(channel)
    speaker = await nodes["north"].socket()
    assert await put(speaker, channel, 1)
    nodes["west"].signal(signal.SIGSTOP)
    number = 1

    async def accepted() -> bool:
        nonlocal number
        number += 1
        return await put(speaker, channel, number)

    away = await eventually(accepted)
    print(f"served again after {away * 1000:.0f} ms")
    nodes["west"].signal(signal.SIGCONT)
    last = 1000

    async def accepted_by_the_woken() -> bool:
        nonlocal last
        last += 1
        return await put(stale, channel, last)

    await eventually(accepted_by_the_woken)
    await far.until(last)
    assert far.serials == list(range(1, len(far.serials) + 1))
    assert len(far.numbers) == len(set(far.numbers))


@pytest.mark.spec("CLU-05")
async def test_a_stopped_node_hands_over_first_and_no_publish_fails(nodes: Nodes) -> None:
    await settled(nodes, *NAMES)
    channel = channel_of("north", NAMES, "stop")
    speaker, guest = await nodes["west"].socket(), await nodes["north"].socket()
    assert await put(speaker, channel, 0)  # an empty channel has no epoch that could be kept
    far = Log(await nodes["east"].socket(), channel)
    await far.socket.subscribe(channel)
    ending = asyncio.Event()

    async def publish_on() -> int:
        number = 0
        while not ending.is_set():
            number += 1
            assert await put(speaker, channel, number)
        return number

    publishing = asyncio.ensure_future(publish_on())
    await far.until(5)
    nodes["north"].signal(signal.SIGTERM)
    assert await nodes["north"].ended() == 0
    ending.set()
    last = await publishing
    await far.until(last)
    assert far.numbers == list(range(1, last + 1))
    assert far.resets == 0
    code, _ = await guest.closed()
    assert code == 1001, "going away: connect again"
    await nodes["north"].start()


@pytest.mark.spec("CLU-01", "CLU-02")
async def test_nats_that_stands_still_for_a_moment_resets_no_channel(
    postgres: LocalPostgres, tmp_path: Path
) -> None:
    """For longer than nodes wait for each other, and shorter than their connections to NATS do."""
    async with (
        ground(tmp_path, await new_database(postgres)) as on,
        node_processes(tmp_path, on, HUBS, *NAMES, cluster__silenceTimeout=1.5) as nodes,
    ):
        await settled(nodes, *NAMES)
        speaker, listener = await nodes["north"].socket(), await nodes["east"].socket()
        logs = [Log(listener, f"room:{number}") for number in range(6)]
        for log in logs:
            await listener.subscribe(log.channel)
            assert (await speaker.publish(log.channel, {"json": 1}))["success"]
            await log.until(1)
        terms = await _terms(on)

        async def heard_again() -> bool:
            return all("is heard again" in node.log.read_text() for node in nodes.values())

        os.kill(on.nats.pid, signal.SIGSTOP)
        await asyncio.sleep(2.5)
        os.kill(on.nats.pid, signal.SIGCONT)
        await eventually(heard_again)
        await settled(nodes, *NAMES)
        for log in logs:
            assert (await speaker.publish(log.channel, {"json": 2}))["success"]
            await log.until(2)
            assert (log.resets, log.serials[1] - log.serials[0]) == (0, 1), log.channel
        assert await _terms(on) == terms, "nothing was taken over"


async def _terms(on: Ground) -> list[tuple[int, int]]:
    options = on.database.options
    connection = await asyncpg.connect(
        host="127.0.0.1", port=options.port, user=options.user, password=PASSWORD,
        database=options.database,
    )  # fmt: skip
    try:
        rows = await connection.fetch("SELECT partition_id, term FROM partitions ORDER BY 1")
    finally:
        await connection.close()
    return [tuple(row) for row in rows]


@pytest.mark.spec("CLU-01")
async def test_without_nats_a_node_serves_its_own_channels_and_afterwards_all_goes_on(
    nodes: Nodes, on: Ground
) -> None:
    near, far = channel_of("east", NAMES, "alone"), channel_of("west", NAMES, "alone")

    async def cut_off_with_its_own() -> bool:
        """On a busy machine a channel may just be under way to another node."""
        await settled(nodes, *NAMES)
        await on.nats.kill()
        if await put(socket, near, 1):
            return True
        await on.nats.start()
        return False

    socket = await nodes["east"].socket()
    await eventually(cut_off_with_its_own)
    result = await socket.publish(far, {"json": 1}, store=True)
    assert not result["success"]
    assert result["error"]["code"] == "unavailable"
    assert result["error"]["retry"]
    await on.nats.start()

    async def accepted() -> bool:
        try:
            return await put(await nodes["east"].socket(), far, 2)
        except TimeoutError:
            return False

    await eventually(accepted, 30)
    assert await put(socket, near, 2), "the connection was kept all the time"


async def test_with_the_shipped_timeouts_a_killed_and_a_frozen_owner_are_replaced(
    postgres: LocalPostgres, tmp_path: Path
) -> None:
    """How fast is measured (`python -m benchmarks.cluster --only outage`), not tested."""
    shipped = load(None, {}).cluster
    timeouts = {
        "cluster__silenceTimeout": shipped.silence_timeout,
        "cluster__heartbeatInterval": shipped.heartbeat_interval,
    }
    async with (
        ground(tmp_path, await new_database(postgres)) as on,
        node_processes(tmp_path, on, HUBS, *NAMES, **timeouts) as nodes,
    ):
        for number, name in ((signal.SIGKILL, "west"), (signal.SIGSTOP, "north")):
            channel = channel_of(name, NAMES, "shipped")
            speaker = await nodes["east"].socket()
            log = Log(await nodes["east"].socket(), channel)
            await log.socket.subscribe(channel)
            acknowledged: list[int] = []
            attempts = itertools.count(1)

            async def accepted(
                speaker: Socket = speaker,
                channel: str = channel,
                attempts: Iterator[int] = attempts,
                acknowledged: list[int] = acknowledged,
            ) -> bool:
                attempt = next(attempts)
                done = await put(speaker, channel, attempt)
                if done:
                    acknowledged.append(attempt)
                return done

            await eventually(accepted)
            nodes[name].signal(number)
            print(f"served again after {1000 * await eventually(accepted):.0f} ms")
            await log.until(acknowledged[-1])
            assert set(acknowledged) <= set(log.numbers)
            assert log.serials == list(range(log.serials[0], log.serials[-1] + 1)), "no gap"
            if number is signal.SIGKILL:
                await nodes[name].ended()
                await nodes[name].start()


@pytest.mark.spec("CLU-04", "DOC-03")
async def test_of_two_nodes_a_killed_and_a_frozen_owner_of_a_document_are_replaced(
    postgres: LocalPostgres, tmp_path: Path
) -> None:
    """A killed node is replaced at once, since NATS reports its end. A frozen one is waited for
    until its number in the database stands still: one of two is no majority."""
    shipped = load(None, {}).cluster
    timeouts = {
        "cluster__silenceTimeout": shipped.silence_timeout,
        "cluster__heartbeatInterval": shipped.heartbeat_interval,
    }
    names = ("east", "west")
    async with (
        ground(tmp_path, await new_database(postgres)) as on,
        node_processes(tmp_path, on, HUBS, *names, **timeouts) as nodes,
    ):
        document = channel_of("west", names, "doc:board")
        for number in (signal.SIGKILL, signal.SIGSTOP):
            socket = await nodes["east"].socket()

            async def changed(socket: Socket = socket) -> dict[str, Any] | None:
                ops = [{"op": "add", "path": "/n", "value": 1}]
                await socket.send("DocumentChange", reqID=1, channel=document, ops=ops)
                answer = await socket.find("DocumentChange")
                return answer if answer["success"] else None

            async def accepted(changed: Any = changed) -> bool:
                return await changed() is not None

            await eventually(accepted)
            before = await changed()
            nodes["west"].signal(number)
            away = await eventually(accepted)
            after = await changed()
            print(f"served again after {away * 1000:.0f} ms")
            assert before is not None
            assert after is not None
            assert after["epoch"] == before["epoch"]
            assert after["version"] > before["version"]
            if number is signal.SIGKILL:
                await nodes["west"].ended()
                await nodes["west"].start()
