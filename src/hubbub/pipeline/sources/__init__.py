"""Spark data sources for Hubbub: the journal's segments, and the tables of a warehouse."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Registers the formats `hubbub_journal` and `hubbub_table` for `spark.read`.

    If the workers' Python is not configured, Spark takes any `python3` of the path, which may lack
    this package; local workers then use this interpreter.
    """
    from pyspark.sql.utils import is_remote

    from hubbub.pipeline.sources.journal import JournalSource
    from hubbub.pipeline.sources.table import TableSource

    if not is_remote() and "PYSPARK_PYTHON" not in os.environ:
        conf = spark.sparkContext.getConf()
        here = conf.get("spark.master", "").startswith("local")
        if here and not conf.contains("spark.pyspark.python"):
            spark.sparkContext.pythonExec = sys.executable
    spark.dataSource.register(JournalSource)
    spark.dataSource.register(TableSource)
