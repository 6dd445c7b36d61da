"""Starts the processes of Python's tasks with everything loaded that tasks need.

Spark asks a process, this one, to fork one for each task that runs at a time. What is loaded before
is shared by all: loading Arrow in each anew takes longer than most rounds take for the rest.
"""

from __future__ import annotations

import gc

import pyarrow as pa
from pyspark.daemon import manager

from hubbub.pipeline.jobs import ingest, intervals, threads

_USED = (ingest, intervals, threads)


if __name__ == "__main__":
    pa.array([0]).to_numpy()  # loads what Arrow loads only when it is first used
    # After each task Spark looks for garbage, for longer than many tasks take. What is loaded here
    # is none.
    gc.freeze()
    manager()
