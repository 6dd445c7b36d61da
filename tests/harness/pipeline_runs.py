"""Runs of the pipeline in processes of their own, over small journals, and what to compare with."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
from hubbub.domain import journal as kinds
from hubbub.domain.journal import JournalEvent

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
        events += _talk(number, at)
        write_segment(journal, f"n1-{number:04}", events)


def _talk(number: int, at: int) -> list[JournalEvent]:
    """Answers, conversations, producers, receipts, attempts and drops: something for all tables."""
    talk: dict[str, Any] = {
        "conversation_id": f"c{number // 2}",
        "producer": "p",
        "sequence": number + 1,
    }
    first = 10 * number
    handed: dict[str, Any] = {"channel": "news", "subscription": "s", "user": "bob", "epoch": "e"}
    span: dict[str, Any] = {"first_serial": first, "serial": first + 9, "count": 10, "delivery": 1}
    tried: dict[str, Any] = {"channel": "news", "message_id": f"m{first}", "peer": "ann"}
    return [
        published(1000 + number, at + 20, user="bob", **talk),
        published(2000 + number, at + 30, user="cem", refers_to=f"m{first - 5}"),
        JournalEvent(kinds.RECEIVED, at + 40, "demo", **handed, **span),
        JournalEvent(kinds.ACKNOWLEDGED, at + 50, "demo", **handed, **span),
        JournalEvent(
            kinds.ADAPTER_ATTEMPT,
            at + 60,
            "demo",
            **tried,
            adapter="mail",
            policy="PREFERRED",
            outcome="ok",
            duration=1000,
            attempt=1,
        ),
        JournalEvent(
            kinds.POLICY_VERDICT,
            at + 65,
            "demo",
            channel="comm:log",
            message_id=f"m{first}",
            receiver="ann",
            policy="PREFERRED",
            outcome="met",
        ),
        JournalEvent(kinds.DROPPED, at + 70, "demo", channel="news", session=f"s{number}", count=2),
    ]


def start(pipeline: Pipeline, master: str = "local[2]") -> subprocess.Popen[bytes]:
    paths = f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests'}"
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "harness.pipeline_process",
            str(pipeline.journal),
            str(pipeline.warehouse),
            master,
        ],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(process: subprocess.Popen[bytes]) -> str:
    output, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors.decode()
    return output.decode()


def undisturbed(spark: SparkSession, folder: Path, journal: Path) -> Pipeline:
    """One run over the whole journal."""
    other = Pipeline(spark, folder)
    shutil.copytree(journal, other.journal)
    other.run()
    return other
