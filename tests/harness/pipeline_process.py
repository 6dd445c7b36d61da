"""A pipeline in a process of its own, which a test can kill: runs one round and stops.

    python -m harness.pipeline_process JOURNAL WAREHOUSE MASTER

Prints how many executors took part.
"""

from __future__ import annotations

import sys
from pathlib import Path

from harness.segments import NOW
from hubbub.pipeline.errors import PipelineError
from hubbub.pipeline.failures import clear_spark_failures
from hubbub.pipeline.jobs.rounds import run_round
from hubbub.pipeline.session import spark_session
from hubbub.pipeline.tables.location import Location

QUICK = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.executor.memory": "512m",
}
"""For little data: nothing is compiled."""


def main() -> None:
    journal, folder, master = sys.argv[1:]
    scratch = Path(folder) / "_spark"
    with spark_session(scratch, master, 1024, QUICK, "-XX:TieredStopAtLevel=1") as spark:
        try:
            with clear_spark_failures(scratch / "spark.log"):
                run_round(Location(folder), Location(journal), lambda: spark, now=lambda: NOW)
        except PipelineError as error:
            sys.exit(error.message)
        status = spark.sparkContext._jsc.sc().getExecutorMemoryStatus()
        print(status.size() - 1)  # the driver is among them


if __name__ == "__main__":
    main()
