"""`hubbub pipeline` with all its parts."""

from __future__ import annotations

from hubbub.cli.pipeline import pipeline
from hubbub.cli.pipeline_queries import COMMANDS as QUERIES
from hubbub.cli.pipeline_results import report, show
from hubbub.cli.pipeline_upkeep import compact, prune, vacuum

__all__ = ["pipeline"]

for each in (show, report, compact, prune, vacuum, *QUERIES):
    pipeline.add_command(each)
