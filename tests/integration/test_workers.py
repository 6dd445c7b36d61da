"""`hubbub serve --workers`: processes that share a port."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections import defaultdict
from http.client import HTTPConnection
from pathlib import Path

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families
from websockets.exceptions import WebSocketException

from benchmarks.postgres import PASSWORD
from harness.cluster import eventually
from harness.command import hubbub
from harness.hub_process import HubProcess
from harness.postgres import TestDatabase

pytestmark = pytest.mark.spec("CLU-05")

METRICS_TOKEN = "0123456789abcdef0123456789abcdef"
RULES = {"public": True, "clientPublish": True, "allowAnonymous": True, "store": True}
HUBS = {
    "acme": {
        "settings": {"allowAnonymous": True, "defaultRules": "kept"},
        "rules": {"kept": RULES},
    }
}


def _is_worker(process: psutil.Process) -> bool:
    try:
        return "--worker" in process.cmdline()
    except psutil.Error:
        return False  # it has just ended


class WorkersProcess(HubProcess):
    def command(self, *arguments: str) -> list[str]:
        return [*super().command(*arguments), "--workers", "2"]

    @property
    def workers(self) -> list[psutil.Process]:
        assert self._process is not None
        children = psutil.Process(self._process.pid).children()
        return [child for child in children if _is_worker(child)]

    @property
    def children(self) -> list[psutil.Process]:
        assert self._process is not None
        children: list[psutil.Process] = psutil.Process(self._process.pid).children(recursive=True)
        return children


COUNTED = {
    "hubbub_sessions": 25,
    "hubbub_messages_in_total": 5,
    "hubbub_messages_out_total": 100,
    "hubbub_publish_seconds_count": 5,
    "hubbub_cluster_partitions": 1024,
}


class Scraper:
    """Reads /metrics over one connection, as Prometheus does."""

    def __init__(self, hub: WorkersProcess) -> None:
        self._hub = hub

    async def __aenter__(self) -> Scraper:
        self._connection = HTTPConnection("127.0.0.1", self._hub.port, timeout=20)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._connection.close()

    def _read(self) -> str:
        headers = {"Authorization": f"Bearer {METRICS_TOKEN}"}
        self._connection.request("GET", "/metrics", headers=headers)
        answer = self._connection.getresponse()
        assert answer.status == 200
        return answer.read().decode()

    async def metrics(self) -> dict[str, float]:
        """Values by name, of all labels together."""
        page = await asyncio.to_thread(self._read)
        found: defaultdict[str, float] = defaultdict(float)
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                found[sample.name] += sample.value
        return found

    def worker(self) -> psutil.Process:
        """Who answers."""
        port = self._connection.sock.getsockname()[1]

        def serves(worker: psutil.Process) -> bool:
            return any(each.raddr and each.raddr.port == port for each in worker.net_connections())

        (found,) = filter(serves, self._hub.workers)
        return found


async def test_workers_share_a_port_and_the_channels_and_end_together(
    tmp_path: Path, database: TestDatabase
) -> None:
    options = database.options
    postgres = {
        "host": "127.0.0.1",
        "port": options.port,
        "user": options.user,
        "password": PASSWORD,
        "dbName": options.database,
    }
    storage = {"path": str(tmp_path / "data"), "postgres": postgres}
    hub = WorkersProcess(
        tmp_path,
        HUBS,
        storage=storage,
        journal={"enabled": False},
        admin={"metricsToken": METRICS_TOKEN},
    )
    async with hub:
        await hub.start()
        sockets = [await hub.socket() for _ in range(20)]
        for socket in sockets:
            await socket.subscribe("news")
        speakers = [await hub.socket() for _ in range(5)]
        for number, speaker in enumerate(speakers):
            result = await speaker.publish("news", {"json": number}, store=True)
            assert result["success"], result
        for socket in sockets:
            numbers = [(await socket.find("Publish"))["payload"]["json"] for _ in speakers]
            assert numbers == [0, 1, 2, 3, 4]
        connections = [len(worker.net_connections("tcp")) for worker in hub.workers]
        assert len(connections) == 2
        assert min(connections) > 3, "both have some of the clients"
        async with Scraper(hub) as scraper:
            found = await scraper.metrics()
            assert found["hubbub_workers"] == 2
            assert {name: found[name] for name in COUNTED} == COUNTED
            (victim,) = [each for each in hub.workers if each.pid != scraper.worker().pid]
            victim.suspend()
            found = await scraper.metrics()
            assert found["hubbub_workers"] == 1, "the one that does not answer is not waited for"
            assert found["hubbub_sessions"] < 25
            assert found["hubbub_messages_in_total"] == 5, "counters never fall"
            assert found["hubbub_messages_out_total"] == 100
            victim.kill()

        async def back() -> bool:
            return len(hub.workers) == 2 and victim.pid not in {w.pid for w in hub.workers}

        await eventually(back)

        async def accepted() -> bool:
            try:
                socket = await hub.socket()
                result = await socket.publish("news", {"json": 100}, store=True)
            except (OSError, AssertionError, WebSocketException):
                return False
            return bool(result["success"])

        await eventually(accepted)
        async with Scraper(hub) as scraper:
            assert (await scraper.metrics())["hubbub_messages_in_total"] >= 6
        children = hub.children
        assert any("nats-server" in child.name() for child in children)
        at = ("--url", f"http://127.0.0.1:{hub.port}", "--config", str(hub.config))
        assert (await hubbub("shutdown", "--yes", *at)).out == "Shutdown\n"
        assert await hub.ended(30) == 0
        assert not [child for child in children if child.is_running()]


async def test_workers_without_postgresql_are_refused_with_the_reason(tmp_path: Path) -> None:
    config = tmp_path / "hubbub.yaml"
    config.write_text(json.dumps({"storage": {"path": str(tmp_path / "data")}}))
    command = ["-m", "hubbub.cli.main", "serve", "--workers", "2", "--config", str(config)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, stderr=asyncio.subprocess.PIPE, env=dict(os.environ)
    )
    _, errors = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 2
    assert re.search(rb"storage\.postgres\.host", errors)
