"""Errors of the pipeline. They are never sent to clients, so the hub's table of codes does not list
them."""

from __future__ import annotations

import re

from hubbub.domain.errors import HubbubError


class PipelineError(HubbubError):
    """Base of the pipeline's errors. Nothing was committed when one is raised."""

    code = "pipeline_failed"


class SparkMissing(PipelineError):
    """PySpark or Java is not installed; the message says how to install it."""

    code = "spark_missing"


class PipelineBusy(PipelineError):
    """Another pipeline is working on the same warehouse."""

    code = "pipeline_busy"
    retry = True


class WarehouseUnreadable(PipelineError):
    """The warehouse's state is damaged, or was written by a newer version."""

    code = "warehouse_unreadable"


class WarehouseUnreachable(PipelineError):
    """The disk or the object store of the warehouse does not respond, or responds incorrectly."""

    code = "warehouse_unreachable"
    retry = True


class NoSuchRound(PipelineError):
    """The round is not complete, is no longer recorded, or its files were vacuumed."""

    code = "no_such_round"


class CommitRefused(PipelineBusy):
    """Another writer changed a table since it was read. The commit has no effect."""

    code = "commit_refused"


class QueryRefused(PipelineError):
    """The query is not a single SELECT, or is invalid for the tables."""

    code = "query_refused"


class ModelError(PipelineError):
    """A model is wrong; the message names its file and the remedy."""

    code = "model_wrong"


def in_one_line(error: BaseException) -> str:
    """A library's message on one line, shortened and without colours."""
    plain = re.sub(r"\x1b\[[0-9;]*m|↳", "", str(error))
    return " ".join(plain.split())[:300] or type(error).__name__
