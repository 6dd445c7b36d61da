"""The three NATS servers of deploy/compose, as processes: the same file, with other addresses.

They do not tell clients of each other, who would find ways around a proxy.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.servers import free_port
from hubbub.server.nats_server import program
from hubbub.server.supervisor import end_with_parent

SECRET = "0123456789abcdef" * 4
_COMPOSE = Path(__file__).parents[2] / "deploy" / "compose"
_START_SECONDS = 20.0


class NatsTrio:
    """Each can be killed and started again, on the same port with the same passwords."""

    def __init__(self, folder: Path) -> None:
        self.ports = [free_port() for _ in range(3)]
        self.password = SECRET
        routes = [free_port() for _ in range(3)]
        self._environment = {
            **os.environ,
            **{f"NATS_{name}PASSWORD": SECRET for name in ("", "SYSTEM_", "ROUTE_")},
            **{
                f"NATS_ROUTE_{number}": f"nats://route:{SECRET}@127.0.0.1:{route}"
                for number, route in enumerate(routes, 1)
            },
        }
        self._files = [folder / f"nats{number}.conf" for number in (1, 2, 3)]
        self._processes: list[asyncio.subprocess.Process | None] = [None, None, None]
        text = (_COMPOSE / "nats.conf").read_text()
        for file, client, route in zip(self._files, self.ports, routes, strict=True):
            here = text.replace("0.0.0.0:4222", f"127.0.0.1:{client}")
            here = here.replace("0.0.0.0:6222", f"127.0.0.1:{route}\n  no_advertise: true")
            file.write_text(here.replace("/data", str(file.with_suffix(""))))

    @property
    def url(self) -> str:
        return ",".join(f"nats://127.0.0.1:{port}" for port in self.ports)

    async def start(self, number: int) -> None:
        """Counted from 0."""
        log = self._files[number].with_suffix(".log")
        with log.open("ab") as output:
            self._processes[number] = process = await asyncio.create_subprocess_exec(
                program(),
                "-c",
                str(self._files[number]),
                env={**self._environment, "NATS_NAME": f"nats{number + 1}"},
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        async with asyncio.timeout(_START_SECONDS):
            while True:
                assert process.returncode is None, log.read_text()[-2000:]
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", self.ports[number])
                    writer.close()
                    return
                await asyncio.sleep(0.01)

    async def kill(self, number: int) -> None:
        process, self._processes[number] = self._processes[number], None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def start_all(self) -> None:
        await asyncio.gather(*(self.start(number) for number in range(3)))

    async def kill_all(self) -> None:
        await asyncio.gather(*(self.kill(number) for number in range(3)))


@asynccontextmanager
async def nats_trio(folder: Path) -> AsyncIterator[NatsTrio]:
    trio = NatsTrio(folder)
    try:
        await trio.start_all()
        yield trio
    finally:
        await trio.kill_all()
