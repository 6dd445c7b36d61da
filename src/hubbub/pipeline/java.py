"""Checks for a suitable Java before Spark is started, for a clear error message."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from hubbub.pipeline.errors import SparkMissing

OLDEST: Final = 17
_REMEDY: Final = (
    "run `make pipeline`, or install the distribution's package"
    " (apt-get install openjdk-17-jre-headless)"
)


def require_spark() -> None:
    """Raises `SparkMissing` if the pipeline cannot run."""
    if importlib.util.find_spec("pyspark") is None:
        raise SparkMissing(
            "the pipeline needs PySpark, which is not installed; run `make pipeline`,"
            " or: pip install -r requirements/pipeline.txt"
        )
    version = _java_version(_java())
    if version < OLDEST:
        raise SparkMissing(f"Java {version} is too old, Spark needs {OLDEST} or newer; {_REMEDY}")


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not java.is_file():
            raise SparkMissing(f"JAVA_HOME is {home}, where there is no bin/java; correct it")
        return str(java)
    found = shutil.which("java")
    if found is None:
        raise SparkMissing(f"the pipeline needs Java, which is not installed; {_REMEDY}")
    return found


def _java_version(java: str) -> int:
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SparkMissing(f"{java} cannot be run ({error}); {_REMEDY}") from error
    match = re.search(r'version "(?:1\.)?(\d+)', said.stderr)
    if match is None:
        raise SparkMissing(f"{java} does not say its version; {_REMEDY}")
    return int(match[1])
