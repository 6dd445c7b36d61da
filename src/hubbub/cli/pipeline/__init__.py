"""`hubbub pipeline`: tables about what happened, from the journal, on Spark."""

from __future__ import annotations

import click

from hubbub.cli.pipeline.models import models
from hubbub.cli.pipeline.queries import capacity, export, package, sql, status
from hubbub.cli.pipeline.results import report, show
from hubbub.cli.pipeline.running import run_command, start_command
from hubbub.cli.pipeline.upkeep import compact, prune, vacuum


@click.group()
def pipeline() -> None:
    """Tables about what happened, from the journal."""


for command in (run_command, start_command, status, show, report, sql, export):
    pipeline.add_command(command)
for command in (models, capacity, package, compact, prune, vacuum):
    pipeline.add_command(command)
