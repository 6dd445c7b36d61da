"""Several Spark jobs at a time, and none left when one fails or somebody interrupts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from pyspark.sql import SparkSession

PARALLEL_JOBS: Final = 3
"""Small jobs leave cores idle while they are planned and committed; large ones share them."""


@contextlib.contextmanager
def parallel_jobs(spark: SparkSession) -> Iterator[ThreadPoolExecutor]:
    pool = ThreadPoolExecutor(PARALLEL_JOBS, thread_name_prefix="spark-job")
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        with contextlib.suppress(Exception):  # the JVM may be what failed
            spark.sparkContext.cancelAllJobs()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
