"""Fixtures of the integration tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from harness.running_hub import RunningHub, StartHub, hub_settings
from hubbub.domain.rules import HubConfiguration
from hubbub.server.wiring import Server


@pytest.fixture
async def start_hub(tmp_path: Path) -> AsyncIterator[StartHub]:
    """Starts servers: `await start_hub(open_hub(…), session__maxChannels=3)`."""
    running: list[RunningHub] = []

    async def start(*hubs: HubConfiguration, **overrides: object) -> RunningHub:
        server = Server(hub_settings(tmp_path, *hubs, **overrides))
        await server.start()
        running.append(RunningHub(server))
        return running[-1]

    yield start
    for hub in running:
        await hub.close()


@pytest.fixture
async def hub(start_hub: StartHub) -> RunningHub:
    """A server with one open hub, `acme`."""
    return await start_hub()
