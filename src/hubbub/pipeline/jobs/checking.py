"""Checks models with Spark: whether it can run them, and their columns."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from hubbub.pipeline.catalogue import TABLES
from hubbub.pipeline.errors import in_one_line
from hubbub.pipeline.jobs.gold import session_of_models
from hubbub.pipeline.models import Model
from hubbub.pipeline.models.checking import misfits
from hubbub.pipeline.sources.table import files_frame
from hubbub.pipeline.tables.location import Location


class SparkCheck:
    """All tables, without rows, in a session of its own."""

    def __init__(self, spark: SparkSession) -> None:
        self._session = session_of_models(spark)
        for name in TABLES:
            files_frame(self._session, Location("."), name, ()).createOrReplaceTempView(name)

    def problems(self, model: Model) -> Iterator[str]:
        try:
            found = to_arrow_schema(self._session.sql(model.text).schema, timezone="UTC")
        except PySparkException as error:
            yield f"cannot be run by Spark: {in_one_line(error)}"
        else:
            yield from misfits(model, found, "Spark")
