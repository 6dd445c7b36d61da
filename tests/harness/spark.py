"""One Spark session for the whole test run: starting it takes longer than most tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A small local session that is quick with little data: it compiles nothing. Where Java is
    missing, tests that need it are skipped."""
    from hubbub.pipeline.errors import SparkMissing
    from hubbub.pipeline.java import require_spark

    try:
        require_spark()
    except SparkMissing as error:
        pytest.skip(str(error))
    from hubbub.pipeline.session import spark_session

    with spark_session(
        tmp_path_factory.mktemp("spark"),
        heap_megabytes=1024,
        settings={
            "spark.sql.shuffle.partitions": "1",
            "spark.default.parallelism": "2",
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        },
        java_options="-XX:TieredStopAtLevel=1",
    ) as session:
        yield session
