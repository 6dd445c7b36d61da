"""A server that tests stop and start again over the same data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.running_hub import RunningHub, hub_settings
from hubbub.domain.rules import HubConfiguration
from hubbub.ports.clock import Clock
from hubbub.server.wiring import Server


class RestartingHub:
    """`async with RestartingHub(tmp_path, …) as life: hub = await life.restart()`."""

    def __init__(
        self, path: Path, *hubs: HubConfiguration, clock: Clock | None = None, **overrides: Any
    ) -> None:
        self._settings = hub_settings(path, *hubs, **overrides)
        self._clock = clock
        self._running: RunningHub | None = None

    async def restart(self) -> RunningHub:
        """Stop it gracefully, if it runs, and start it."""
        await self.stop()
        server = Server(self._settings, self._clock)
        await server.start()
        self._running = RunningHub(server)
        return self._running

    async def stop(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            await running.close()

    async def __aenter__(self) -> RestartingHub:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
