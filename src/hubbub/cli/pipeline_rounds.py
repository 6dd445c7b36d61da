"""Rounds of the pipeline with a Spark that starts when it is first needed. Imports PySpark."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from hubbub.journal.archive import Archive
from hubbub.journal.sealing import seal_all
from hubbub.pipeline.failures import clear_spark_failures
from hubbub.pipeline.gold import TABLES
from hubbub.pipeline.ingesting import Said
from hubbub.pipeline.rounds import Summary, run_round
from hubbub.pipeline.session import spark_session
from hubbub.pipeline.warehouse import Warehouse


class Rounds:
    """A context manager: Spark ends with it."""

    def __init__(
        self,
        journal: Path,
        warehouse: Path,
        master: str,
        memory: int | None,
        settings: Mapping[str, str],
        archive: str | None = None,
    ) -> None:
        self.journal = journal
        self.warehouse = Warehouse(warehouse)
        self._master = master
        self._memory = memory
        self._settings = settings
        self._archive = Archive(archive) if archive else None
        self._scratch = self.warehouse.state_folder / "spark"
        self._running = contextlib.ExitStack()
        self._session: SparkSession | None = None

    def __enter__(self) -> Rounds:
        return self

    def __exit__(self, *_: object) -> None:
        self.end_spark()

    def run(self, *, said: Said, full: bool = False) -> Summary:
        """Seals what the hubs have written, and takes it in. Raises `PipelineError`, `OSError`,
        `ArchiveUnavailable`."""
        with clear_spark_failures(self._scratch / "spark.log"), self.warehouse.changing():
            if self._archive is not None:
                said("pulling from the archive")
                self._archive.pull(self.journal)
            said("sealing")
            seal_all(self.journal)

            def spark() -> SparkSession:
                if self._session is None:
                    said("starting Spark")
                    self._session = self._start()
                return self._session

            summary = run_round(self.warehouse, self.journal, TABLES, spark, full=full, said=said)
            said("")
            return summary

    def _start(self) -> SparkSession:
        return self._running.enter_context(
            spark_session(self._scratch, self._master, self._memory, self._settings)
        )

    def end_spark(self) -> None:
        """The next round starts a new one."""
        self._session = None
        self._running.close()
