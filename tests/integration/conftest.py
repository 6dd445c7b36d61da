"""Fixtures of the integration tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from benchmarks.postgres import LocalPostgres
from harness.admin_login import AdminUrl, serving_logins
from harness.certificates import make_certificate
from harness.cluster import Ground, ground
from harness.commands import Stage, User
from harness.postgres import new_database
from harness.running_hub import RunningHub, StartHub, hub_settings
from harness.shared_servers import SharedServers
from hubbub.domain.rules import HubConfiguration
from hubbub.ports.clock import Clock
from hubbub.server.settings import developer_settings, load
from hubbub.server.wiring import Server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_servers(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[SharedServers]:
    servers = SharedServers(lambda: tmp_path_factory.mktemp("server"))
    yield servers
    await servers.stop()


@pytest.fixture
async def start_hub(
    shared_servers: SharedServers, start_server: StartHub
) -> AsyncIterator[StartHub]:
    """Gives the test hubs: `await start_hub(open_hub(…), session__maxChannels=3)`, on a server
    that tests of the same module with the same settings use before and afterwards. With `clock`,
    the test decides what time it is, on a server of its own. For tests about the server itself or
    its files: `start_server`."""
    async with AsyncExitStack() as leased:

        async def start(
            *hubs: HubConfiguration, clock: Clock | None = None, **overrides: object
        ) -> RunningHub:
            if clock is not None:
                return await start_server(*hubs, clock=clock, **overrides)
            hub = await shared_servers.lease(hubs, overrides)
            leased.push_async_callback(shared_servers.give_back, hub)
            return hub

        yield start


@pytest.fixture
async def start_server(tmp_path: Path) -> AsyncIterator[StartHub]:
    """Starts servers of the test's own, one after the other over the same folder: like
    `start_hub`. With `clock`, the test decides what time it is."""
    running: list[RunningHub] = []

    async def start(
        *hubs: HubConfiguration, clock: Clock | None = None, **overrides: object
    ) -> RunningHub:
        server = Server(hub_settings(tmp_path, *hubs, **overrides), clock)
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


@pytest.fixture
async def stage(start_hub: StartHub) -> AsyncIterator[Stage]:
    """A server with one hub, `demo`, that takes commands."""
    stage = await Stage.open(start_hub)
    yield stage
    await stage.close()


@pytest.fixture
async def ann(stage: Stage) -> User:
    return stage.user("ann")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningHub]:
    """A server with one open hub, `acme`, for all tests of a module that only talk to it. They are
    marked `@pytest.mark.asyncio(loop_scope="module")` and use channels of their own."""
    server = Server(hub_settings(tmp_path_factory.mktemp("shared")))
    await server.start()
    running = RunningHub(server)
    yield running
    await running.close()


@pytest.fixture
async def admin_url() -> AsyncIterator[tuple[AdminUrl, str]]:
    """A login of administrators, and its URL."""
    async with serving_logins() as served:
        yield served


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1 and its key."""
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def demo(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningHub]:
    """A hub in developer mode; tests use topics of their own."""
    folder = tmp_path_factory.mktemp("demo")
    keys = {"listener.port": 0, "storage.path": str(folder / "data")}
    server = Server(developer_settings(load(None, {}, keys)))
    await server.start()
    running = RunningHub(server)
    yield running
    await running.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def on(
    postgres: LocalPostgres, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Ground]:
    """What the nodes of a cluster share: NATS, a database, a secret."""
    folder = tmp_path_factory.mktemp("ground")
    async with ground(folder, await new_database(postgres)) as shared:
        yield shared
