"""A hub is restored on PostgreSQL, by one node or by any of several, from an embedded archive."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from benchmarks.postgres import PASSWORD, LocalPostgres
from harness.admin import HUB, Caller, admin_of, service_of
from harness.cluster import Ground, channel_of, eventually, ground, node_processes, start_node
from harness.postgres import TestDatabase, new_database
from harness.restoring import RESTORES, restore_hub
from harness.running_hub import RunningHub, hub_settings
from harness.topics import HttpTopic, texts, topic_hub
from hubbub.domain.errors import Conflict
from hubbub.server.backup.making import back_up
from hubbub.server.wiring import Server

pytestmark = pytest.mark.spec("OPS-04", "CLU-01")

NAMES = ("east", "west")
HUBS = [topic_hub(), topic_hub("other")]
CHANNELS = [channel_of(name, NAMES) for name in NAMES]
"""One for each owner."""


@asynccontextmanager
async def alone(folder: Path, **more: object) -> AsyncIterator[RunningHub]:
    server = Server(hub_settings(folder, *HUBS, journal__enabled=False, **more))
    await server.start()
    hub = RunningHub(server)
    try:
        yield hub
    finally:
        await hub.close()


@pytest.fixture
async def archive(tmp_path: Path) -> Path:
    """Made by an embedded server: messages, a durable subscription, a producer, a document."""
    folder = tmp_path / "embedded"
    async with alone(folder) as hub:
        ann = hub.token("ann")
        for channel in CHANNELS:
            topic = HttpTopic(hub, channel, ann)
            await topic.put("1", producer="p", sequence="1")
            await topic.subscribe(start="first")
            for n in (2, 3):
                await topic.put(str(n))
            await topic.get(limit=1)
            await topic.ack(upTo="1")
        document = "/v1/hubs/acme/channels/doc:plan/document"
        assert (await Caller(hub, ann)("PUT", document, {"a": 1})).status == 200
        made: Path = back_up(folder / "data", tmp_path / "backup.tar.gz", with_secrets=True)[0]
    return made


async def disturb(hub: RunningHub) -> None:
    """Something else is there, under the names that the archive has."""
    for channel in CHANNELS:
        topic = HttpTopic(hub, channel, hub.token("ann"))
        await topic.subscribe(start="first")
        for n in range(5):
            await topic.put(f"wrong {n}", producer="p", sequence=str(n + 1))
        await topic.get(limit=5)
        await topic.ack(upTo="5")
    assert (await admin_of(hub)("PUT", f"{HUB}/rules/wrong", {})).status < 300


async def is_restored(hub: RunningHub) -> None:
    ann = hub.token("ann")
    for channel in CHANNELS:
        topic = HttpTopic(hub, channel, ann)
        again = await topic.put("1", producer="p", sequence="1")
        assert (again.json["duplicate"], again.json["channelSerial"]) == (True, "1")
        assert texts(await topic.get(limit=10)) == ["2", "3"]
        next_one = await topic.put("4", producer="p", sequence="2")
        assert next_one.json["channelSerial"] == "4"
    found = await Caller(hub, ann)("GET", "/v1/hubs/acme/channels/doc:plan/document")
    assert found.json == {"a": 1}
    assert (await admin_of(hub)("GET", f"{HUB}/rules/wrong")).status == 404


async def test_an_embedded_archive_is_restored_on_postgresql(
    tmp_path: Path, archive: Path, database: TestDatabase
) -> None:
    keys = {
        "storage__postgres__host": "127.0.0.1",
        "storage__postgres__port": database.server.port,
        "storage__postgres__user": database.name,
        "storage__postgres__password": PASSWORD,
        "storage__postgres__dbName": database.options.database,
    }
    async with alone(tmp_path / "server", **keys) as hub:
        await disturb(hub)
        dry = await restore_hub(hub, archive, dryRun=True)
        assert (dry["state"], dry["rows"]) == ("done", 0)
        told = await restore_hub(hub, archive)
        assert told["state"] == "done", told
        await is_restored(hub)
        assert await hub.server.store.read_restores() == []


@asynccontextmanager
async def two_nodes(folder: Path, on: Ground) -> AsyncIterator[list[RunningHub]]:
    nodes = [await start_node(folder, on, name, HUBS) for name in NAMES]
    try:
        yield nodes
    finally:
        for node in nodes:
            await node.close()


async def test_any_node_restores_a_hub_of_the_cluster(
    postgres: LocalPostgres, tmp_path: Path, archive: Path
) -> None:
    async with (
        ground(tmp_path, await new_database(postgres)) as on,
        two_nodes(tmp_path, on) as (east, west),
    ):
        await disturb(west)
        sockets = [await node.socket() for node in (east, west)]
        bystander = await east.socket("other")
        await bystander.publish(CHANNELS[1], {"json": 1}, store=True)
        told = await restore_hub(west, archive)
        assert told["state"] == "done", told
        assert (told["sessions"], told["node"]) == (2, "west")
        for socket in sockets:
            assert (await socket.closed())[0] == 4503
        result = await bystander.publish(CHANNELS[1], {"json": 2}, store=True)
        assert result["channelSerial"] == "2"
        assert (await admin_of(east)("GET", f"{RESTORES}/{told['id']}")).json == told
        await is_restored(east)
        assert await west.server.store.read_restores() == []


async def test_a_node_whose_restorer_is_silent_goes_on_and_the_restore_is_over(
    postgres: LocalPostgres, tmp_path: Path
) -> None:
    async with (
        ground(tmp_path, await new_database(postgres)) as on,
        two_nodes(tmp_path, on) as (east, _),
    ):
        restores, store = east.server.administration.restores, east.server.store
        restores.patience_seconds = 0.05
        await store.begin_restore("dead")
        await restores.suspend("acme", "dead")

        async def goes_on() -> bool:
            reply = await service_of(east)("GET", f"/v1/hubs/acme/channels/{CHANNELS[0]}/messages")
            return reply.status == 200

        await eventually(goes_on)
        with pytest.raises(Conflict):
            await store.switch_hub("dead", "acme")


OPEN = {
    "settings": {"allowAnonymous": True, "defaultRules": "default"},
    "rules": {
        "default": {
            "public": True,
            "clientPublish": True,
            "allowAnonymous": True,
            "store": True,
            "storeByDefault": True,
        }
    },
}


async def test_while_a_node_does_not_answer_the_hub_stays_as_it_is(
    postgres: LocalPostgres, tmp_path: Path, archive: Path
) -> None:
    async with (
        ground(tmp_path, await new_database(postgres)) as on,
        node_processes(tmp_path, on, {"acme": OPEN}, *NAMES, cluster__silenceTimeout=30) as nodes,
    ):
        east, west = (nodes[name] for name in NAMES)
        headers = {"Authorization": f"Bearer {await west.token('*', 'root', 'admin')}"}
        base = f"http://127.0.0.1:{west.port}"
        async with aiohttp.ClientSession(base, headers=headers) as http:

            async def ask(method: str, path: str, body: Any = None) -> Any:
                async with http.request(method, path, json=body) as answer:
                    return await answer.json()

            async def publish(text: str) -> Any:
                item = {"channel": CHANNELS[1], "payload": {"text": text}}
                return await ask("POST", f"{HUB}/messages", {"publishes": [item]})

            async def both_are_there() -> bool:
                return len((await ask("GET", "/v1/admin/topology"))["nodes"]) == 2

            await eventually(both_are_there)
            assert (await publish("old"))["published"][0]["success"]
            east.signal(signal.SIGSTOP)
            try:
                wanted = {"hub": "acme", "archive": str(archive)}
                begun = await ask("POST", RESTORES, wanted)

                async def is_over() -> bool:
                    views = await ask("GET", RESTORES)
                    return any(view["endedAt"] is not None for view in views)

                await eventually(is_over)
                (view,) = await ask("GET", RESTORES)
            finally:
                east.signal(signal.SIGCONT)
            assert (view["id"], view["state"]) == (begun["id"], "failed")
            assert view["error"]["code"] == "unavailable"
            assert "east" in view["error"]["message"]
            page = await ask("GET", f"/v1/hubs/acme/channels/{CHANNELS[1]}/messages")
            assert [each["payload"]["text"] for each in page["messages"]] == ["old"]
