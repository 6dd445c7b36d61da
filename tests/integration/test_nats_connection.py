"""Connections to a NATS server that stands still."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from harness.nats import nats_server
from harness.topics import until
from hubbub.cluster import nats_connection
from hubbub.cluster.nats_connection import NatsConnection
from hubbub.cluster.nats_settings import NatsSettings
from hubbub.domain.secret import Secret
from hubbub.server.nats_server import USER


@pytest.mark.spec("CLU-02")
@pytest.mark.parametrize("others", [0, 1], ids=["the-only-server", "one-of-two"])
async def test_a_connection_is_given_up_soon_only_where_there_is_another_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    monkeypatch.setattr(nats_connection, "PING_SECONDS", 0.05)
    monkeypatch.setattr(nats_connection, "PATIENT_PINGS", 1000)  # however busy the machine is
    async with nats_server(tmp_path) as server:
        hosts = [server.url, *(others * ["nats://127.0.0.1:9"])]
        connection = NatsConnection(
            NatsSettings(host=",".join(hosts), user=USER, password=Secret(server.password)), "test"
        )
        changes: list[bool] = []
        connection.changed = lambda: changes.append(connection.connected)
        await connection.open()
        try:
            os.kill(server.pid, signal.SIGSTOP)
            try:
                patient = nats_connection.UNANSWERED_PINGS + 2
                await until(lambda: changes or connection.client._pings_outstanding > patient)
                assert len(changes) == others
            finally:
                os.kill(server.pid, signal.SIGCONT)
            async with asyncio.timeout(20):
                while not connection.connected:
                    await asyncio.sleep(0.01)
            await connection.client.flush()
            assert len(changes) == 2 * others, "lost once, and back"
        finally:
            await connection.close()
