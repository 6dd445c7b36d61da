"""Runs rounds of the pipeline; starts Spark when it is first needed. Imports PySpark."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from hubbub.journal.archive import Archive
from hubbub.journal.sealing import seal_all
from hubbub.pipeline.failures import clear_spark_failures
from hubbub.pipeline.jobs.rounds import RoundReport, run_round
from hubbub.pipeline.jobs.work import Said
from hubbub.pipeline.session import spark_session
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.tables.migration import replace_old_tables
from hubbub.pipeline.tables.snapshot import open_snapshot


class Rounds:
    """A context manager: leaving it ends Spark."""

    def __init__(
        self,
        journal: Path | str,
        warehouse: Path | str,
        master: str,
        memory: int | None,
        settings: Mapping[str, str],
        archive: str | None = None,
    ) -> None:
        self.journal = Location(journal)
        self.warehouse = Location(warehouse)
        self._master = master
        self._memory = memory
        self._settings = settings
        self._archive = Archive(archive) if archive else None
        self._running = contextlib.ExitStack()
        self._session: SparkSession | None = None
        self._scratch = (
            self.warehouse.path / "_spark"
            if self.warehouse.is_local
            else Path(tempfile.gettempdir()) / "hubbub-spark"
        )

    def __enter__(self) -> Rounds:
        return self

    def __exit__(self, *_: object) -> None:
        self.end_spark()

    def run(self, *, said: Said, full: bool = False) -> RoundReport:
        """Seals the hubs' open segments, and ingests all new ones. Raises `PipelineError`,
        `OSError`, `ArchiveUnavailable`."""
        with clear_spark_failures(self._scratch / "spark.log"):
            if self.journal.is_local:
                self._complete_journal(said)

            def spark() -> SparkSession:
                if self._session is None:
                    said("starting Spark")
                    self._session = self._start()
                return self._session

            report = run_round(self.warehouse, self.journal, spark, full=full, said=said)
            if report.round and self.warehouse.is_local:
                known = open_snapshot(self.warehouse).read("segments", columns=["segment"])
                old = replace_old_tables(self.warehouse.path, set(known["segment"].to_pylist()))
                if old is not None:
                    said(old)
            return report

    def _complete_journal(self, said: Said) -> None:
        folder = self.journal.path
        if self._archive is not None:
            said("pulling from the archive")
            self._archive.pull(folder)
        seal_all(folder)

    def _start(self) -> SparkSession:
        return self._running.enter_context(
            spark_session(self._scratch, self._master, self._memory, self._settings)
        )

    def end_spark(self) -> None:
        """Ends Spark; the next round starts it again."""
        self._session = None
        self._running.close()
