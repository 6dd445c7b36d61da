"""Spark takes every model as it is, and says which it cannot run."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from hubbub.pipeline.jobs.checking import SparkCheck
from hubbub.pipeline.models import MODELS, parsed

pytestmark = [pytest.mark.spec("PIPE-08"), pytest.mark.timeout(300)]


def test_every_model_runs_in_spark_with_the_columns_of_its_header(spark: SparkSession) -> None:
    check = SparkCheck(spark)
    for model in MODELS.values():
        assert list(check.problems(model)) == [], model.name
    only_duckdb = MODELS["channels"].text.replace("sum(1)", "count_star()")
    (problem,) = check.problems(parsed("channels", only_duckdb))
    assert problem.startswith("cannot be run by Spark: ")
    as_text = MODELS["channels"].text.replace("sum(1)", "min(event)")
    (problem,) = check.problems(parsed("channels", as_text))
    assert problem == "has the column messages as text, not as whole (Spark)"
