"""The bus's contract on the bus of a node that is alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from contract.bus_contract import HUB, SMALL, BusContract, Place
from harness.engine import Alone, RecordingSink
from hubbub.cluster.local import LocalBus


class TestLocalBus(BusContract):
    @pytest.fixture
    async def place(self, tmp_path: Path) -> AsyncIterator[Place]:
        async with Alone(tmp_path, hubs=[HUB, SMALL]) as alone:
            sink = RecordingSink()
            bus = alone.node.bus
            assert isinstance(bus, LocalBus)
            bus.connect(alone.node.owner, sink)
            yield Place(bus, sink, alone.node, "news", "kept:news")
