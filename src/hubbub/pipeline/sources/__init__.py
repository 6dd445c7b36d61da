"""Spark data sources for Hubbub: the journal's segments, and the tables of a warehouse."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Registers the formats `hubbub_journal` and `hubbub_table` for `spark.read`.

    Spark takes any `python3` of the path for its workers, which may lack this package, unless a
    command of Spark's own read `spark.pyspark.python`. Workers use the Python of this setting; if
    it is not set, local workers use this interpreter.
    """
    from pyspark.sql.utils import is_remote

    from hubbub.pipeline.sources.journal import JournalSource
    from hubbub.pipeline.sources.table import TableSource

    if not is_remote() and "PYSPARK_PYTHON" not in os.environ:
        conf = spark.sparkContext.getConf()
        here = sys.executable if (conf.get("spark.master") or "").startswith("local") else None
        if python := conf.get("spark.pyspark.python") or here:
            spark.sparkContext.pythonExec = python
    spark.dataSource.register(JournalSource)
    spark.dataSource.register(TableSource)
