"""A real Spark cluster on this machine: a master and two workers, on loopback only."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark

from benchmarks.servers import free_port

DEADLINE_SECONDS = 300
_DEPLOY = "org.apache.spark.deploy"
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
"""For JVMs that live for seconds."""
_WHERE = ("--host", "127.0.0.1", "--webui-port", "0")


class SparkCluster:
    """`workers` are those that were started and not killed."""

    def __init__(self, folder: Path, address: str, running: contextlib.ExitStack) -> None:
        self.address = address
        self.workers: list[subprocess.Popen[bytes]] = []
        self._folder = folder
        self._running = running
        self._started = 0

    def start_worker(self) -> None:
        """Returns once the master knows it."""
        place = self._folder / f"{self._started}"
        log = self._folder / f"worker{self._started}.log"
        self._started += 1
        size = ("--cores", "1", "--memory", "1g", "--work-dir", str(place))
        worker = _daemon(log, f"{_DEPLOY}.worker.Worker", *_WHERE, *size, self.address)
        self.workers.append(self._running.enter_context(worker))
        _wait_for(log, "Successfully registered with master")

    def kill_worker(self) -> bool:
        """The oldest one. Its executors end with it."""
        self.workers.pop(0).kill()
        return True


@contextlib.contextmanager
def spark_cluster(folder: Path, workers: int = 2) -> Iterator[SparkCluster]:
    """All of it has ended when the block has."""
    with contextlib.ExitStack() as running:
        port = free_port()
        log = folder / "master.log"
        master = _daemon(log, f"{_DEPLOY}.master.Master", *_WHERE, "--port", str(port))
        running.enter_context(master)
        _wait_for(log, "New state: ALIVE")
        cluster = SparkCluster(folder, f"spark://127.0.0.1:{port}", running)
        for _ in range(workers):
            cluster.start_worker()
        yield cluster


@contextlib.contextmanager
def _daemon(log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    script = Path(pyspark.__file__).parent / "bin" / "spark-class"
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA,
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
