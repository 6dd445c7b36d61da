"""Converts exceptions of Spark and its JVM to one sentence; the details are in Spark's log."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext, accumulators
from pyspark.errors import PySparkException

from hubbub.domain.errors import HubbubError
from hubbub.pipeline.errors import PipelineError, in_one_line

_DYING_SECONDS = 0.5
_KEPT = "what was committed before is as it was"
_FULL = re.compile(r"No space left on device|Disk quota exceeded|File too large")

_RAISED = re.compile(r"^(?!org\.|java\.)[\w.]+(?:Error|Exception): .+$", re.MULTILINE)
"""The last line of a Python traceback, which is in the middle of Java's message."""


def _say_nothing(server: object, request: object, client_address: object) -> None:
    """Spark's accumulator connection breaks with the JVM. The failure is reported once, below; a
    traceback before it would hide it."""


accumulators.AccumulatorTCPServer.handle_error = _say_nothing  # type: ignore[method-assign,assignment]


@contextlib.contextmanager
def clear_spark_failures(log: Path) -> Iterator[None]:
    """Raises `PipelineError`."""
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError, EOFError) as error:
        if isinstance(error, Py4JNetworkError | ConnectionError | EOFError) or _jvm_ended():
            raise _jvm_gone(log) from error
        raise PipelineError(_sentence(error, log)) from error
    except (OSError, DeltaError) as error:
        if _FULL.search(str(error)):
            raise PipelineError(_sentence(error, log)) from error
        raise PipelineError(f"{in_one_line(error)}; {_KEPT}. Run again") from error
    except Exception as error:
        # PySpark stumbles over a connection that the JVM did not live to take (UnboundLocalError).
        if isinstance(error, HubbubError) or not _jvm_ended():
            raise
        raise _jvm_gone(log) from error


def _jvm_gone(log: Path) -> PipelineError:
    return PipelineError(
        f"Spark's JVM ended in the middle of the work; {_KEPT}. Run again; if it happens again,"
        f" {log} may say why"
    )


def _jvm_ended() -> bool:
    """Whether the JVM has died: its last exception may look like any other error."""
    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if process is None:
        return False
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_DYING_SECONDS)
    return process.poll() is not None


def _sentence(error: Exception, log: Path) -> str:
    text = str(error)
    if _FULL.search(text):
        return f"the disk is full; {_KEPT}. Make room and run again"
    if "OutOfMemoryError" in text:
        return f"Spark's memory was not enough; {_KEPT}. Give it more with --memory"
    raised = _RAISED.findall(text)
    line = raised[-1] if raised else next(filter(str.strip, text.splitlines()), "no reason given")
    return f"Spark failed: {line.strip()[:300]}; {_KEPT}. {log} says more"
