"""Work by the file: Spark hands lists of files to its tasks, where Arrow reads and writes them.

Reading an event's forty columns, sorting events by kind and hour, and writing them again needs no
plan: Arrow does it in a fraction of the time that rows take through the JVM. Spark still decides
what runs where, and does again what fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from pyspark.sql import SparkSession

Task = TypeVar("Task")
Found = TypeVar("Found")
Sized = TypeVar("Sized")


def scattered(
    spark: SparkSession, work: Callable[[Task], Found], tasks: Sequence[Task], small: bool = False
) -> list[Found]:
    """What `work` answers to each task, in their order. It must be importable where tasks run, and
    doing it twice must be as good as once. Of `small` tasks several are handed out together."""
    if not tasks:
        return []
    context = spark.sparkContext
    parts = min(len(tasks), 2 * context.defaultParallelism) if small else len(tasks)
    return context.parallelize(tasks, parts).map(work).collect()


def in_groups(
    items: Iterable[Sized], size: Callable[[Sized], int], limit: int
) -> list[list[Sized]]:
    """Neighbours together, up to `limit` in all; one that is larger is alone."""
    groups: list[list[Sized]] = []
    filled = 0
    for item in items:
        filled += size(item)
        if not groups or filled > limit:
            groups.append([])
            filled = size(item)
        groups[-1].append(item)
    return groups
