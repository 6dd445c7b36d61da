"""A pipeline in a process of its own, which a test can kill: runs one round and stops.

    python -m harness.pipeline_process JOURNAL WAREHOUSE MASTER TABLES

TABLES is how many gold tables to compute, -1 for all. Prints how many executors took part.
"""

from __future__ import annotations

import sys
from pathlib import Path

from harness.segments import NOW
from hubbub.pipeline.errors import PipelineError
from hubbub.pipeline.failures import clear_spark_failures
from hubbub.pipeline.gold import TABLES
from hubbub.pipeline.rounds import run_round
from hubbub.pipeline.session import spark_session
from hubbub.pipeline.warehouse import Warehouse

QUICK = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.executor.memory": "512m",
}
"""For little data: nothing is compiled."""


def main() -> None:
    journal, folder, master, tables = sys.argv[1:]
    warehouse = Warehouse(Path(folder))
    with (
        warehouse.changing(),
        spark_session(
            warehouse.state_folder / "spark", master, 1024, QUICK, "-XX:TieredStopAtLevel=1"
        ) as spark,
    ):
        chosen = TABLES if tables == "-1" else TABLES[: int(tables)]
        try:
            with clear_spark_failures(warehouse.state_folder / "spark" / "spark.log"):
                run_round(warehouse, Path(journal), chosen, lambda: spark, now=lambda: NOW)
        except PipelineError as error:
            sys.exit(error.message)
        status = spark.sparkContext._jsc.sc().getExecutorMemoryStatus()
        print(status.size() - 1)  # the driver is among them


if __name__ == "__main__":
    main()
