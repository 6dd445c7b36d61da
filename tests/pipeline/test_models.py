"""Models that are wrong are named before anything runs, with what is wrong."""

from __future__ import annotations

import pytest

from harness.command import hubbub
from hubbub.pipeline.catalogue import TABLES
from hubbub.pipeline.errors import ModelError
from hubbub.pipeline.models import MODELS, Model, ordered, parsed
from hubbub.pipeline.models.checking import problems, repeated
from hubbub.pipeline.models.evaluating import connected
from hubbub.pipeline.partitions import MOST_SPANS, hours_of, spans

pytestmark = pytest.mark.spec("PIPE-08")
SCHEMAS = {name: table.schema for name, table in TABLES.items()}
RIGHT = """-- How many messages came?
-- grain: hub, time
-- partition: hour(time)
-- reads: messages
-- columns: text hub, time time, whole messages
SELECT hub, hour_of("at") AS time, count(*) AS messages FROM messages GROUP BY hub, hour_of("at")
"""


def model(*changes: tuple[str, str], name: str = "mine") -> Model:
    text = RIGHT
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return parsed(name, text)


@pytest.mark.parametrize("each", MODELS.values(), ids=lambda each: each.name)
def test_every_model_is_right(each: Model) -> None:
    assert list(problems(each, SCHEMAS)) == []


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("GROUP BY hub,", "GRUP BY hub,", "cannot be parsed by DuckDB: syntax error"),
        ("SELECT hub", "DROP TABLE messages; SELECT hub", "give one SELECT"),
        ("SELECT hub", "SELECT 1; SELECT hub", "give one SELECT"),
        ("FROM messages", "FROM read_csv('/etc/passwd')", "reads read_csv; a model reads tables"),
        ("FROM messages", 'FROM parquet."/etc/passwd"', "reads parquet./etc/passwd; a model"),
        ("FROM messages", "FROM messages, drops", "reads drops, which its line `reads` does not"),
        ("FROM messages", "FROM mine", "reads mine, which its line `reads` does not name"),
        ("reads: messages", "reads: messages, drops", "names drops in its line `reads` and does"),
        ("reads: messages", "reads: nowhere", "reads nowhere, which is no table; there are"),
        ("reads: messages", "reads: messages.no", "reads messages.no, but messages has no such"),
        ("count(*) AS messages", "no_such(1) AS messages", "cannot be run by DuckDB: Catalog"),
        ("count(*) AS messages", "'a' AS messages", "messages as text, not as whole (DuckDB)"),
        ("count(*) AS messages", "count(*) AS m", "has the column m, other than its line"),
        (", count(*) AS messages", "", "lacks the column messages, other than its line"),
    ],
)
def test_what_is_wrong_with_a_model_is_said(before: str, after: str, said: str) -> None:
    (problem,) = problems(model((before, after)), SCHEMAS)
    assert said in problem
    assert "\n" not in problem


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("came?", "came", "does not begin with its question"),
        ("-- grain: hub, time\n", "", "has no line `-- grain: …`"),
        ("hour(time)", "week(time)", "has the partition 'week(time)'; give hour(column)"),
        ("hour(time)", "hour(day)", "names 'day' in its header, which is not among its columns"),
        ("whole messages", "number messages", "has columns without a known type"),
        ("-- reads", "-- recent: a week\n-- reads", "write it as in `recent: 192 hours`"),
    ],
)
def test_what_is_wrong_with_a_header_is_said(before: str, after: str, said: str) -> None:
    with pytest.raises(ModelError) as refused:
        model((before, after))
    assert refused.value.message.startswith("the model mine.sql ")
    assert said in refused.value.message


def test_models_that_read_each_other_are_refused() -> None:
    one = model(("reads: messages", "reads: other"))
    other = model(("reads: messages", "reads: mine"), name="other")
    with pytest.raises(ModelError, match="the models mine, other read themselves"):
        ordered([one, other])
    view = model(("hour(time)", "view"), name="other")
    with pytest.raises(ModelError, match=r"mine is stored and reads the view other"):
        ordered([one, view])


def test_rows_that_the_grain_does_not_tell_apart_are_named() -> None:
    with connected() as connection:
        connection.execute("CREATE TABLE mine AS SELECT 'a' AS hub, 1 AS time FROM range(2)")
        said = "has several rows for hub a, time 1; its grain should tell rows apart"
        assert repeated(connection, model()) == said
        connection.execute("CREATE OR REPLACE TABLE mine AS SELECT 'a' AS hub, range AS time"
                           " FROM range(2)")  # fmt: skip
        assert repeated(connection, model()) is None


def test_hours_are_whole_partitions_and_never_too_many() -> None:
    day, hour = 24, 3_600_000_000
    assert spans([], "hour") == []
    assert hours_of(spans([5, 6, 9], "hour")) == {5, 6, 9}
    assert hours_of(spans([25, 70], "day")) == set(range(day, 3 * day))
    february = hours_of(spans([31 * day], "month"))
    assert february == set(range(31 * day, (31 + 28) * day)), "1970 was no leap year"
    many = [number * (10 + number) for number in range(1000)]
    found = spans(many, "hour")
    assert len(found) == MOST_SPANS
    assert set(many) <= hours_of(found)
    assert all(until % hour == since % hour == 0 for since, until in found)


async def test_models_are_listed_and_shown() -> None:
    listed = await hubbub("pipeline", "models", "list")
    lines = listed.out.splitlines()
    assert lines[0].split() == ["MODEL", "PARTITION", "READS", "ANSWERS"]
    assert {line.split()[0] for line in lines[1:]} == set(MODELS)
    shown = await hubbub("pipeline", "models", "show", "traffic")
    assert shown.out == MODELS["traffic"].text
    missing = await hubbub("pipeline", "models", "show", "trafic")
    assert (missing.code, "there is no model trafic; there are" in missing.err) == (2, True)
