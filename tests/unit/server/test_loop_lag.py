"""The measure of an event loop that is held up."""

from __future__ import annotations

import asyncio
import time

import pytest

from hubbub.server.telemetry.process import LoopLag


@pytest.mark.spec("ADMIN-05")
async def test_what_holds_the_loop_up_shows() -> None:
    lag = LoopLag()
    assert lag.worst() == 0.0
    lag.start()
    try:
        while not lag._late:
            await asyncio.sleep(0.01)
        time.sleep(0.5)  # the loop stands still
        async with asyncio.timeout(5):
            while lag.worst() < 0.15:
                await asyncio.sleep(0.01)
    finally:
        lag.stop()
