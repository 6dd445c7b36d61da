"""A Spark session sized for the machine, whose JVM never outlives the command.

The JVM ends when its input ends, unless it hangs. A watcher, a shell that waits for this process to
end, then kills it, even if this process was killed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final

from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from hubbub.pipeline.errors import PipelineError
from hubbub.pipeline.java import require_spark
from hubbub.pipeline.tables.rounds import started

HEAP_MEGABYTES: Final = 2048
"""The driver's heap; without a cluster, the driver does all the work. Spark spills what does not
fit: with Java's other memory and Python's tasks the total stays below 4 GB."""
_SMALLEST_HEAP: Final = 1024
_END_SECONDS: Final = 10
_JAVA: Final = "-XX:-UsePerfData -XX:+UseParallelGC -XX:TieredStopAtLevel=1"
"""Favours throughput over short pauses. The JVM mostly distributes work: optimizing its code fully
would take longer than it saves."""
_ATTEMPTS: Final = 3
_SHUFFLE_PARTS: Final = 32
_SPILL: Final = "spill-"
_LARGEST_LOG: Final = 10_000_000
_WATCHER: Final = 'read -r jvm && { read -r ended || kill -9 "$jvm" 2>/dev/null; }'


@contextlib.contextmanager
def spark_session(
    scratch: Path,
    master: str = "local[*]",
    heap_megabytes: int | None = None,
    settings: Mapping[str, str] | None = None,
    java_options: str = "",
) -> Iterator[SparkSession]:
    """Starts Spark for the block. `scratch` holds its temporary files and its log.

    Raises `SparkMissing` if it is not installed, `PipelineError` if it does not start.
    """
    require_spark()
    scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    _remove_spills_of_the_dead(scratch)
    log = scratch / "spark.log"
    conf = _configuration(scratch, master, heap_megabytes or _fitting_heap())
    with as_file(files("hubbub.pipeline") / "log4j2.properties") as log4j:
        logged = f"-Dlog4j2.configurationFile=file:{log4j} -Dhubbub.log={log}"
    conf.set("spark.driver.extraJavaOptions", f"{logged} {_JAVA} {java_options}")
    for key, value in (settings or {}).items():
        conf.set(key, value)
    aside = ThreadPoolExecutor(1, "starts and stops Spark")
    with _quiet_py4j(), aside, _watched_gateway(conf, log) as gateway:
        try:
            # In the main thread it would put a handler of Ctrl-C in the place of the command's.
            context = aside.submit(SparkContext, conf=conf, gateway=gateway).result()
        except Exception as error:
            raise PipelineError(f"Spark does not start with master {master}; see {log}") from error
        context.pythonExec = str(conf.get("spark.pyspark.python"))  # else it takes any python3
        session = SparkSession(context)
        try:
            yield session
        finally:
            # A cluster that lost workers may hold it up. The JVM ends in any case, and with it the
            # thread, which does not wait for what was interrupted.
            wait([aside.submit(_stop, session, context)], _END_SECONDS)
            _forget_jvm()
    shutil.rmtree(scratch / f"{_SPILL}{os.getpid()}", ignore_errors=True)


def _stop(*parts: SparkSession | SparkContext) -> None:
    for part in parts:
        with contextlib.suppress(Exception):  # a killed JVM cannot be asked to stop
            part.stop()


@contextlib.contextmanager
def _quiet_py4j() -> Iterator[None]:
    """Silences tracebacks of the bridge to a killed JVM. The caller reports the failure."""

    def from_elsewhere(record: logging.LogRecord) -> bool:
        return "py4j" not in record.pathname

    loggers = (logging.getLogger(), logging.getLogger("py4j.clientserver"))
    for logger in loggers:
        logger.addFilter(from_elsewhere)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(from_elsewhere)


def _remove_spills_of_the_dead(scratch: Path) -> None:
    """Deletes temporary files of killed JVMs, and truncates an oversized log."""
    for spill in scratch.glob(f"{_SPILL}*"):
        owner = spill.name.removeprefix(_SPILL)
        if not owner.isdigit() or int(owner) == os.getpid() or not started(int(owner)):
            shutil.rmtree(spill, ignore_errors=True)
    log = scratch / "spark.log"
    if log.exists() and log.stat().st_size > _LARGEST_LOG:
        log.unlink()


def _configuration(scratch: Path, master: str, heap: int) -> SparkConf:
    conf = SparkConf(loadDefaults=False)
    conf.setAll(
        [
            ("spark.master", _with_attempts(master)),
            ("spark.app.name", "hubbub pipeline"),
            ("spark.driver.memory", f"{heap}m"),
            ("spark.local.dir", str(scratch / f"{_SPILL}{os.getpid()}")),
            ("spark.sql.warehouse.dir", str(scratch / "unused")),
            ("spark.pyspark.python", sys.executable),
            ("spark.python.daemon.module", "hubbub.pipeline.daemon"),
            ("spark.ui.enabled", "false"),
            ("spark.ui.showConsoleProgress", "false"),
            ("spark.sql.session.timeZone", "UTC"),
            ("spark.executor.extraJavaOptions", _JAVA),
            # Shuffles are of narrow keys: this is half a million of them.
            ("spark.sql.adaptive.coalescePartitions.parallelismFirst", "false"),
            ("spark.sql.adaptive.advisoryPartitionSizeInBytes", str(8 * 2**20)),
            # A join sorts both sides only where one has too many keys for a task's memory.
            ("spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold", str(16 * 2**20)),
            ("spark.sql.sources.partitionColumnTypeInference.enabled", "false"),
            ("spark.sql.execution.arrow.maxRecordsPerBatch", "16384"),
            # A bound in bytes would be checked row by row, in quadratic time where there are maps.
            ("spark.sql.execution.arrow.maxBytesPerBatch", str(2**31 - 1)),
            ("spark.sql.files.maxPartitionBytes", str(32 * 2**20)),
            ("spark.sql.files.openCostInBytes", str(2**20)),
            # The paths that are read are known, one by one: no jobs to look for them.
            ("spark.sql.sources.parallelPartitionDiscovery.threshold", "100000"),
            ("spark.hadoop.parquet.page.verify-checksum.enabled", "true"),
            ("spark.hadoop.fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem"),
        ]
    )
    if _on_this_machine(master):
        conf.set("spark.driver.host", "127.0.0.1").set("spark.driver.bindAddress", "127.0.0.1")
    if local := re.fullmatch(r"local(?:\[(\d+|\*).*)?", master):
        # Two tasks for each core, so that one that takes longer is made up for, and shuffles in
        # parts that fit into memory; small parts are joined. Spark knows how many cores a cluster
        # has.
        cores = int(local[1] or 1) if local[1] != "*" else os.cpu_count() or 1
        conf.set("spark.default.parallelism", str(max(2, cores)))
        conf.set("spark.sql.files.minPartitionNum", str(max(4, 2 * cores)))
        conf.set("spark.sql.shuffle.partitions", str(max(_SHUFFLE_PARTS, 2 * cores)))
    return conf


def _with_attempts(master: str) -> str:
    """Retries tasks of killed processes: clusters do this by default, a local master must be
    told."""
    return re.sub(r"^local\[(\d+|\*)\]$", rf"local[\1,{_ATTEMPTS}]", master)


def _on_this_machine(master: str) -> bool:
    return master.startswith("local") or "//127.0.0.1" in master or "//localhost" in master


def _fitting_heap() -> int:
    """Half of the machine's memory, within bounds."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    return max(_SMALLEST_HEAP, min(HEAP_MEGABYTES, machine // 2))


@contextlib.contextmanager
def _watched_gateway(conf: SparkConf, log: Path) -> Iterator[Any]:
    with _watching(), log.open("ab") as output, _modules_for_planning(conf):
        try:
            gateway = launch_gateway(  # type: ignore[no-untyped-call]
                conf, {"stdout": output, "stderr": output}
            )
        except PySparkRuntimeError as error:
            raise PipelineError(f"Java does not start; see {log}") from error
        try:
            yield gateway
        finally:
            with contextlib.suppress(Exception):  # it may be gone already
                gateway.shutdown()


@contextlib.contextmanager
def _modules_for_planning(conf: SparkConf) -> Iterator[None]:
    """Spark plans Python data sources on this machine with the workers' Python, which may lack this
    package and Arrow. The JVM started meanwhile passes this module path on."""
    if conf.get("spark.pyspark.python") == sys.executable:
        yield
        return
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


@contextlib.contextmanager
def _watching() -> Iterator[None]:
    """The watcher learns of the JVM as soon as it starts, long before PySpark reports it, so that
    an interrupt cannot leave the JVM behind. It is started in a thread, since interrupts are raised
    only in the main thread, even between the start of a process and the return of its id. The JVM
    ends with the block."""
    watcher = subprocess.Popen(  # noqa: S603
        ["/bin/sh", "-c", _WATCHER], stdin=subprocess.PIPE, start_new_session=True
    )
    assert watcher.stdin is not None
    told, usual = watcher.stdin, vars(java_gateway)["Popen"]
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(usual(*arguments, **options))
        told.write(f"{started[-1].pid}\n".encode())
        told.flush()
        return started[-1]

    starter = ThreadPoolExecutor(1, "starts Java")
    vars(java_gateway)["Popen"] = lambda *a, **o: starter.submit(start, *a, **o).result()
    try:
        yield
    finally:
        vars(java_gateway)["Popen"] = usual
        starter.shutdown()
        for jvm in started:
            _end(jvm)
        with contextlib.suppress(OSError):
            told.write(b"ended\n")
        with contextlib.suppress(OSError):
            told.close()
        watcher.wait()


def _end(jvm: subprocess.Popen[bytes]) -> None:
    """Kills the JVM if it does not end by itself soon."""
    assert jvm.stdin is not None
    jvm.stdin.close()
    try:
        jvm.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()


def _forget_jvm() -> None:
    """PySpark keeps the JVM and its context in class variables; clearing them makes the next
    session start a new one. A context whose JVM was killed cannot be stopped."""
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
