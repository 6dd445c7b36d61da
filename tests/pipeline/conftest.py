"""Fixtures of the pipeline's tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.segments import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def pipeline(spark: SparkSession, tmp_path: Path) -> Pipeline:
    return Pipeline(spark, tmp_path)
