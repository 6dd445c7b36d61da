"""`hubbub pipeline models`: the answers in SQL, and whether they are right."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from hubbub.cli.failures import WRONG, clear_failures, fail
from hubbub.cli.journal.options import needing_arrow
from hubbub.cli.pipeline.options import warehouse_command
from hubbub.cli.tables import table


@click.group()
def models() -> None:
    """The answers in SQL: list them, read one, check all of them."""


@models.command("list")
def list_command() -> None:
    """List the models, what they read, and what a round makes again of each."""
    with clear_failures(), needing_arrow():
        from hubbub.pipeline.models import MODELS

        rows = [
            [
                each.name,
                f"{each.unit}({each.partition})" if each.unit else each.partition,
                ", ".join(each.reads),
                each.question,
            ]
            for each in MODELS.values()
        ]
        for line in table(["MODEL", "PARTITION", "READS", "ANSWERS"], rows):
            click.echo(line)


@models.command("show")
@click.argument("name", metavar="MODEL")
def show_command(name: str) -> None:
    """Print the text of MODEL."""
    with clear_failures(), needing_arrow():
        from hubbub.pipeline.models import MODELS

        if name not in MODELS:
            fail(f"there is no model {name}; there are {', '.join(MODELS)}", WRONG)
        click.echo(MODELS[name].text, nl=False)


@models.command("check")
@warehouse_command
def check_command(warehouse: Path | str) -> None:
    """Check all models: whether DuckDB and Spark can run them, their columns, and, where the
    warehouse has their tables, whether the grain tells rows apart."""
    wrong = list(_found(warehouse))
    for name, problem in wrong:
        click.echo(f"{name}.sql {problem}", err=True)
    if wrong:
        fail(f"{len(wrong)} problems")
    from hubbub.pipeline.models import MODELS

    click.echo(f"{len(MODELS)} models are right")


def _found(warehouse: Path | str) -> Iterator[tuple[str, str]]:
    from hubbub.pipeline.catalogue import TABLES
    from hubbub.pipeline.java import require_spark
    from hubbub.pipeline.models import MODELS
    from hubbub.pipeline.models.checking import problems, repeated
    from hubbub.pipeline.models.evaluating import connected
    from hubbub.pipeline.tables.snapshot import open_snapshot

    require_spark()
    schemas = {name: each.schema for name, each in TABLES.items()}
    for model in MODELS.values():
        yield from ((model.name, problem) for problem in problems(model, schemas))
    from hubbub.pipeline.jobs.checking import SparkCheck
    from hubbub.pipeline.session import spark_session

    with (
        tempfile.TemporaryDirectory() as scratch,
        spark_session(Path(scratch), "local[1]") as spark,
    ):
        check = SparkCheck(spark)
        for model in MODELS.values():
            yield from ((model.name, problem) for problem in check.problems(model))
    snapshot = open_snapshot(warehouse)
    made = snapshot.round.models if snapshot.round else {}
    for name in made.keys() & MODELS:
        with connected() as connection:
            connection.register(name, snapshot.table(name))
            if problem := repeated(connection, MODELS[name]):
                yield name, problem
