"""The bus's contract on the bus of a node that is alone."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from contract.bus_contract import HUB, SMALL, BusContract, Place
from harness.engine import Alone, RecordingSink
from hubbub.cluster.local import LocalBus


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def alone(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Alone]:
    async with Alone(tmp_path_factory.mktemp("bus"), hubs=[HUB, SMALL]) as running:
        yield running


class TestLocalBus(BusContract):
    @pytest.fixture
    def place(self, alone: Alone, request: pytest.FixtureRequest) -> Place:
        sink = RecordingSink()
        bus = alone.node.bus
        assert isinstance(bus, LocalBus)
        bus.connect(alone.node.owner, sink, sink.in_place_of(alone.node))
        name = request.node.name
        return Place(bus, sink, alone.node, name, f"kept:{name}")
