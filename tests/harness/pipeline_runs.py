"""Runs of the pipeline in processes of their own, over small journals, and what to compare with."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from harness.segments import (
    HOUR,
    NOON,
    Pipeline,
    delivered,
    published,
    session_closed,
    session_opened,
    subscribed,
    write_segment,
)
from hubbub.pipeline.gold import TABLES

ROOT = Path(__file__).parents[2]


def write_journal(journal: Path, segments: Sequence[int], payload: int = 20) -> None:
    """Small segments that touch each other's hours and sessions."""
    for number in segments:
        at = NOON + number * HOUR // 2
        events = [
            published(10 * number + n, at + n, payload=random.Random(n).randbytes(payload))
            for n in range(10)
        ]
        events += [delivered(10 * number + n, at + n) for n in range(10)]
        events += [session_opened(f"s{number}", at), subscribed(f"s{number}", at)]
        events += [session_closed(f"s{number - 1}", at), published(10 * number - 1, at)]
        write_segment(journal, f"n1-{number:04}", events)


def start(pipeline: Pipeline, master: str = "local[2]", tables: int = 2) -> subprocess.Popen[bytes]:
    paths = f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests'}"
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "harness.pipeline_process",
            str(pipeline.journal),
            str(pipeline.warehouse.path),
            master,
            str(tables),
        ],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(process: subprocess.Popen[bytes]) -> str:
    output, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors.decode()
    return output.decode()


def undisturbed(spark: SparkSession, folder: Path, journal: Path, tables: int) -> Pipeline:
    """One run over the whole journal."""
    other = Pipeline(spark, folder, TABLES if tables < 0 else TABLES[:tables])
    shutil.copytree(journal, other.journal)
    other.run()
    return other
