"""A hub in a process of its own, for tests that kill it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from harness.running_hub import NO_LIMITS, Socket

START_SECONDS = 60.0


class HubProcess:
    """Started with `hubbub serve --config`; runs over the same data each time it is started."""

    def __init__(self, folder: Path, hubs: dict[str, Any], **settings: Any) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.config = folder / "hubbub.yaml"
        self.log = folder / "hubbub.log"
        keys = {
            "listener": {"port": 0},
            "storage": {"path": str(self.data), "reserveBytes": 4 * 1024 * 1024},
            "session": {"messagesPerSecond": 0},
            "limits": NO_LIMITS,
            "hubs": hubs,
            **settings,
        }
        self.config.write_text(json.dumps(keys))  # JSON is YAML
        self.host = "127.0.0.1"
        self.port = 0
        self.environment: dict[str, str] = {}
        """Variables added to this process's environment, from the next start on."""
        self._process: asyncio.subprocess.Process | None = None
        self._sockets: list[ClientConnection] = []

    async def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self.command("serve"),
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **self.environment},
            )
        assert self._process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            async for line in self._process.stdout:
                found = re.search(rb"https?://\S+:(\d+)", line)
                if found:
                    self.port = int(found.group(1))
                    return
        raise AssertionError(f"the hub ended before it was ready: {self.log.read_text()[-2000:]}")

    def command(self, *arguments: str) -> list[str]:
        return [
            sys.executable,
            "-m",
            "hubbub.cli.main",
            *arguments,
            "--config",
            str(self.config),
        ]

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def token(self, hub: str, user: str, level: str = "client") -> str:
        """Made on the command line."""
        wanted = ("--hub", hub, "--user", user, "--level", level)
        made = await asyncio.create_subprocess_exec(
            *self.command("token", *wanted), stdout=asyncio.subprocess.PIPE
        )
        said, _ = await made.communicate()
        return said.decode().strip()

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def ended(self, within_seconds: float = 15.0) -> int:
        """Wait for the end; answers the exit code."""
        assert self._process is not None
        code = await asyncio.wait_for(self._process.wait(), within_seconds)
        self._process = None
        return code

    async def kill(self) -> None:
        self.signal(signal.SIGKILL)
        await self.ended()

    async def socket(self, hub: str = "acme", token: str | None = None) -> Socket:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = f"ws://{self.host}:{self.port}/v1/hubs/{hub}/socket"
        connection = await connect(url, compression=None, proxy=None, additional_headers=headers)
        self._sockets.append(connection)
        socket = Socket(connection)
        await socket.expect("SessionInfo")
        return socket

    async def __aenter__(self) -> HubProcess:
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in self._sockets:
            await connection.close()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
