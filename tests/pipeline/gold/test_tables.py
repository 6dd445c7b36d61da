"""What is true of every gold table."""

from __future__ import annotations

import importlib

import pytest
from pyspark.sql import SparkSession

from harness.gold import silver
from hubbub.pipeline.gold import TABLES
from hubbub.pipeline.gold_tables import GoldTable
from hubbub.pipeline.schemas import SILVER

pytestmark = pytest.mark.timeout(300)
every_table = pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)


@every_table
def test_a_table_has_a_module_of_its_name_and_a_question(table: GoldTable) -> None:
    module = importlib.import_module(f"hubbub.pipeline.gold.{table.name}")
    assert table == module.TABLE
    assert table.question.endswith("?")
    assert set(table.key) <= set(table.schema.names)


@every_table
def test_a_table_comes_after_those_that_it_reads(table: GoldTable) -> None:
    before = {each.name for each in TABLES[: TABLES.index(table)]}
    assert set(table.sources) <= {*SILVER, *before}


@every_table
def test_the_column_of_the_partition_is_the_last(table: GoldTable) -> None:
    if table.grain != "all":
        assert table.schema.names[-1] == table.grain


@pytest.mark.spec("PIPE-03")
def test_nothing_gives_empty_tables_of_the_stated_schemas(spark: SparkSession) -> None:
    known = silver(spark)
    for table in TABLES:
        frame = table.transform({name: known[name] for name in table.sources})
        assert [(each.name, each.dataType) for each in frame.schema] == [
            (each.name, each.dataType) for each in table.schema
        ], table.name
        assert frame.collect() == [], table.name
        known[table.name] = spark.createDataFrame([], table.schema)
