"""What can go wrong in the pipeline. These never travel over a wire, so the hub's table of codes
does not list them."""

from __future__ import annotations

import re

from hubbub.domain.errors import HubbubError


class PipelineError(HubbubError):
    """Base of the pipeline's errors. Nothing was committed where one is raised."""

    code = "pipeline_failed"


class SparkMissing(PipelineError):
    """PySpark or Java is not installed; the message says how to get it."""

    code = "spark_missing"


class PipelineBusy(PipelineError):
    """Another pipeline works on the same warehouse."""

    code = "pipeline_busy"
    retry = True


class WarehouseUnreadable(PipelineError):
    """The warehouse's state is damaged, or was written by a newer version."""

    code = "warehouse_unreadable"


class WarehouseUnreachable(PipelineError):
    """The disk or the object store of the warehouse does not answer, or not with what was asked."""

    code = "warehouse_unreachable"
    retry = True


class NoSuchRound(PipelineError):
    """A round that is not done, is forgotten, or whose files were vacuumed."""

    code = "no_such_round"


class CommitRefused(PipelineBusy):
    """Another writer changed a table since it was read. Nothing of this commit counts."""

    code = "commit_refused"


class QueryRefused(PipelineError):
    """A query that is no single SELECT, or that the tables cannot answer."""

    code = "query_refused"


def in_one_line(error: BaseException) -> str:
    """What a library says, which may be pages, and coloured."""
    plain = re.sub(r"\x1b\[[0-9;]*m|↳", "", str(error))
    return " ".join(plain.split())[:300] or type(error).__name__
