"""What is true of every view."""

from __future__ import annotations

import pytest

from harness.views import silver
from hubbub.domain.analytics import table_named
from hubbub.pipeline.catalogue import TABLES
from hubbub.pipeline.views import VIEWS
from hubbub.pipeline.views.view import View

every_view = pytest.mark.parametrize("view", VIEWS.values(), ids=lambda view: view.name)


@every_view
def test_a_view_has_a_question_and_columns_to_order_its_rows_by(view: View) -> None:
    table = table_named(view.name)
    assert table.question.endswith("?")
    ordered = {name.removeprefix("-") for name in table.order}
    assert ordered | ({table.time} if table.time else set()) <= set(view.schema.names)


@every_view
def test_a_view_comes_after_those_that_it_reads(view: View) -> None:
    names = list(VIEWS)
    assert set(view.sources) <= {*TABLES, *names[: names.index(view.name)]}


@every_view
def test_the_column_of_the_hour_or_day_is_the_last(view: View) -> None:
    for name in ("hour", "day"):
        if name in view.schema.names and view.name not in ("responses",):
            assert view.schema.names[-1] == name


@pytest.mark.spec("PIPE-03")
def test_nothing_gives_empty_views_of_the_stated_schemas() -> None:
    known = silver()
    for name, view in VIEWS.items():
        known[name] = view.evaluate(known)
        assert known[name].schema == view.schema
        assert len(known[name]) == 0
