"""What is true of every answer."""

from __future__ import annotations

import pytest

from harness.views import evaluated, silver
from hubbub.domain.analytics import TABLES as ANSWERS
from hubbub.domain.analytics import table_named
from hubbub.pipeline.catalogue import TABLES
from hubbub.pipeline.models import MODELS, Model
from hubbub.pipeline.models.evaluating import connected
from hubbub.pipeline.views import VIEWS
from hubbub.pipeline.views.view import View

every_answer = pytest.mark.parametrize("name", [table.name for table in ANSWERS])


def definition(name: str) -> Model | View:
    return MODELS[name] if name in MODELS else VIEWS[name]


@every_answer
def test_an_answer_has_a_question_and_columns_to_order_its_rows_by(name: str) -> None:
    table, shape = table_named(name), definition(name).schema
    assert table.question.endswith("?")
    ordered = {each.removeprefix("-") for each in table.order}
    assert ordered | ({table.time} if table.time else set()) <= set(shape.names)
    if name in MODELS:
        assert MODELS[name].question == table.question


@every_answer
def test_the_column_of_the_hour_or_day_is_the_last(name: str) -> None:
    shape = definition(name).schema
    for part in ("hour", "day"):
        if part in shape.names and name not in ("responses",):
            assert shape.names[-1] == part


def test_every_answer_but_the_forecast_is_a_model() -> None:
    assert {table.name for table in ANSWERS} - MODELS.keys() == {"forecast", "forecast_errors"}


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: model.name)
def test_a_model_comes_after_those_that_it_reads(model: Model) -> None:
    names = list(MODELS)
    assert set(model.reads) <= {*(TABLES.keys() - MODELS.keys()), *names[: names.index(model.name)]}


@pytest.mark.spec("PIPE-03")
def test_nothing_gives_empty_answers_of_the_stated_columns() -> None:
    with connected() as connection:
        for name, rows in silver().items():
            connection.register(name, rows)
        for model in MODELS.values():
            found = evaluated(connection, model)
            assert len(found) == 0
            connection.register(model.name, found)
        known = {"traffic": connection.sql("FROM traffic").to_arrow_table()}
    for name, view in VIEWS.items():
        known[name] = view.evaluate(known)
        assert known[name].schema == view.schema
        assert len(known[name]) == 0
