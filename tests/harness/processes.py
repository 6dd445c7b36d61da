"""Processes of tests: who their children are, and that they end."""

from __future__ import annotations

import subprocess
import time
from typing import Any

import psutil

DEADLINE_SECONDS = 300


def wait_for_jvm(process: subprocess.Popen[Any]) -> psutil.Process:
    """The JVM that a process started, once it is there."""
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        for child in psutil.Process(process.pid).children():
            if _is_spark(child):
                return child
        assert process.poll() is None, f"it ended by itself with {process.returncode}"
        time.sleep(0.02)
    raise AssertionError("no JVM was started")


def jvms_of(process: subprocess.Popen[Any]) -> list[psutil.Process]:
    """The JVM, or the shell that becomes it, if it is there."""
    try:
        children = psutil.Process(process.pid).children()
    except psutil.NoSuchProcess:
        return []
    return [child for child in children if _is_spark(child)]


def wait_until_gone(*processes: psutil.Process) -> None:
    _, alive = psutil.wait_procs(processes, timeout=DEADLINE_SECONDS)
    assert not [one for one in alive if one.status() != psutil.STATUS_ZOMBIE], alive


def _is_spark(process: psutil.Process) -> bool:
    """Not the Java that is only asked for its version."""
    try:
        words = process.cmdline()
    except psutil.NoSuchProcess:
        return False
    return any(word.endswith(("bin/spark-submit", ".SparkSubmit")) for word in words)
