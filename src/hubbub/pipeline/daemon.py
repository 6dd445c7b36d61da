"""Starts the Python processes of Spark tasks with all modules preloaded.

Spark asks this process to fork a child for each concurrent task. Children share the loaded modules:
loading Arrow in each would take longer than the rest of most rounds.
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
