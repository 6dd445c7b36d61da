"""A real Spark cluster on this machine: a master and two workers, on loopback only."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyspark

DEADLINE_SECONDS = 300
_DEPLOY = "org.apache.spark.deploy"


@dataclass(frozen=True)
class SparkCluster:
    address: str
    workers: Sequence[subprocess.Popen[bytes]]


@contextlib.contextmanager
def spark_cluster(folder: Path, workers: int = 2) -> Iterator[SparkCluster]:
    """All of it has ended when the block has."""
    with contextlib.ExitStack() as running:
        port = _free_port()
        address = f"spark://127.0.0.1:{port}"
        log = folder / "master.log"
        where = ("--host", "127.0.0.1", "--webui-port", "0")
        running.enter_context(_daemon(log, f"{_DEPLOY}.master.Master", *where, "--port", str(port)))
        _wait_for(log, "New state: ALIVE")
        started: list[subprocess.Popen[bytes]] = []
        for number in range(workers):
            log = folder / f"worker{number}.log"
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"{number}"))
            worker = _daemon(log, f"{_DEPLOY}.worker.Worker", *where, *size, address)
            started.append(running.enter_context(worker))
        for number in range(workers):
            _wait_for(folder / f"worker{number}.log", "Successfully registered with master")
        yield SparkCluster(address, started)


@contextlib.contextmanager
def _daemon(log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    script = Path(pyspark.__file__).parent / "bin" / "spark-class"
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_HOME": str(script.parents[1]),
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(script), *arguments], env=environment, stdout=output, stderr=output
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for(log: Path, words: str) -> None:
    end = time.monotonic() + DEADLINE_SECONDS
    while words not in log.read_text(errors="replace"):
        assert time.monotonic() < end, log.read_text(errors="replace")[-2000:]
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
