"""The servers of the comparison, on the same disk."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.hub import hubbub
from benchmarks.once.clients import Client, HubbubClient, JetStreamClient
from benchmarks.peers import nats_program
from benchmarks.servers import Running, free_port, running, workplace


@dataclass(frozen=True, slots=True)
class Subject:
    """A server under measurement and how to connect to it."""

    name: str
    process: Running
    port: int

    async def connect(self, name: str) -> Client:
        if self.name == "jetstream":
            return await JetStreamClient(self.port, name).open()
        return await HubbubClient(self.port, name).open()


@contextlib.contextmanager
def hub(storage: dict[str, object] | None = None) -> Iterator[Subject]:
    with hubbub({"storage": storage} if storage else None) as server:
        yield Subject("hubbub", server.process, server.port)


@contextlib.contextmanager
def jetstream() -> Iterator[Subject]:
    """One node, one replica, and a sync for every message, as the hub does."""
    port = free_port()
    home = Path("data")
    home.mkdir(exist_ok=True)
    with workplace(home) as directory:
        config = f"""
            listen: "127.0.0.1:{port}"
            ping_interval: "1h"
            jetstream {{ store_dir: "{directory}/js", sync_interval: always,
                         max_mem: 256M, max_file: 8G }}
        """
        (directory / "nats.conf").write_text(config)
        with running([nats_program(), "-c", "nats.conf"], port, directory) as process:
            yield Subject("jetstream", process, port)


Start = Callable[[], AbstractContextManager[Subject]]
