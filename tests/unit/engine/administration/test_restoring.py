"""How a node suspends a hub for a restore, and that it always goes on."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from harness.clock import FakeClock
from hubbub.domain.errors import StoreUnavailable, Unavailable
from hubbub.engine.administration import restoring
from hubbub.engine.administration.restoring import Restores

pytestmark = pytest.mark.spec("OPS-04", "OPS-03")


class FakeHubs:
    """Notes what happens to the hub, in order. `quiet` is set when the hub has come to rest."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.quiet = asyncio.Event()
        self.error: Unavailable | None = None

    async def suspend(self, hub: str) -> int:
        await self.quiet.wait()
        self.said.append("suspended")
        if self.error is not None:
            raise self.error
        return 0

    async def resume(self, hub: str) -> None:
        self.said.append("resumed")


class FakeStore:
    """Is away for some calls."""

    def __init__(self) -> None:
        self.away = 0
        self.given_up: list[str] = []

    async def give_up_restore(self, restore: str) -> bool:
        if self.away:
            self.away -= 1
            raise StoreUnavailable("away")
        self.given_up.append(restore)
        return True


@pytest.fixture
def hubs() -> FakeHubs:
    return FakeHubs()


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
def restores(hubs: FakeHubs, store: FakeStore) -> Restores:
    unused: Any = SimpleNamespace()
    return Restores(store, FakeClock(), unused, unused, unused, hubs)  # type: ignore[arg-type]


async def test_a_hub_that_is_resumed_while_it_comes_to_rest_is_not_left_suspended(
    restores: Restores, hubs: FakeHubs
) -> None:
    """The node that restores waits two seconds for an answer, and then tells all to go on."""
    suspending = asyncio.ensure_future(restores.suspend("acme", "r1"))
    await asyncio.sleep(0)
    resuming = asyncio.ensure_future(restores.resume("acme", "r1", False))
    await asyncio.sleep(0)
    hubs.quiet.set()
    await asyncio.gather(suspending, resuming)
    assert hubs.said == ["suspended", "resumed"]
    await restores.suspend("acme", "r2")
    await restores.resume("acme", "r2", True)
    assert hubs.said == ["suspended", "resumed"] * 2


async def test_a_hub_that_did_not_come_to_rest_goes_on(restores: Restores, hubs: FakeHubs) -> None:
    hubs.quiet.set()
    hubs.error = Unavailable("busy")
    await restores.resume("acme", "of another node", True)
    assert hubs.said == ["suspended", "resumed"]


async def test_a_hub_goes_on_without_its_restorer_also_once_the_store_is_back(
    restores: Restores, hubs: FakeHubs, store: FakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restoring, "_AGAIN_SECONDS", 0.001)
    restores.patience_seconds = 0.001
    store.away = 3
    hubs.quiet.set()
    await restores.suspend("acme", "r1")
    async with asyncio.timeout(5):
        while hubs.said[-1] != "resumed":
            await asyncio.sleep(0.001)
    assert store.given_up == ["r1"]
