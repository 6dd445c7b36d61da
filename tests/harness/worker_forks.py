"""Workers of SQLite for tests: real processes, forked from one that has loaded their code.

Thousands of tests start a hub, and each hub two workers, which take longer to import than most
tests to run. Hubs that tests start as processes of their own start their workers themselves.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import socket
import sys
import traceback
from functools import cache
from subprocess import Popen
from typing import cast

import msgspec

from hubbub.processes import module_environment
from hubbub.storage.sqlite import worker, worker_process
from hubbub.storage.sqlite.worker_protocol import WorkerOptions

_MOST_BYTES = 1 << 16


class Fork(msgspec.Struct):
    folder: str
    options: WorkerOptions


class ForkedWorker:
    """The part of a process that `WorkerProcess` uses."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._handle = os.pidfd_open(pid)

    def wait(self) -> None:
        select.select([self._handle], [], [])
        os.close(self._handle)

    def kill(self) -> None:
        signal.pidfd_send_signal(self._handle, signal.SIGKILL)


def install() -> None:
    """From now on, hubs of this process fork their workers."""
    worker_process._spawn = _spawn


def _spawn(options: WorkerOptions, link: socket.socket) -> Popen[bytes]:
    control = fork_server()
    told = msgspec.json.encode(Fork(os.getcwd(), options))
    socket.send_fds(control, [told], [link.fileno()])
    pid = int.from_bytes(control.recv(8), "little")
    return cast("Popen[bytes]", ForkedWorker(pid))


@cache
def fork_server() -> socket.socket:
    """Connected to a process that ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        theirs.set_inheritable(True)
        command = [sys.executable, __file__, str(theirs.fileno())]
        os.posix_spawn(sys.executable, command, module_environment())
    atexit.register(ours.close)
    return ours


def _serve(control: socket.socket) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for workers but by their pidfd
    while True:
        told, handles, _, _ = socket.recv_fds(control, _MOST_BYTES, 1)
        if not told:
            return
        pid = os.fork()
        if not pid:
            control.close()
            _work(msgspec.json.decode(told, type=Fork), handles[0])
        os.close(handles[0])
        control.send(pid.to_bytes(8, "little"))


def _work(fork: Fork, handle: int) -> None:
    status = 1
    try:
        os.chdir(fork.folder)
        with socket.socket(fileno=handle) as link:
            worker.serve(fork.options, link)
        status = 0
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(status)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
