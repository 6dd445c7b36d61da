"""Answers one question about a table and ends: what a hub starts in a process of its own, so that
neither Arrow nor a large table is ever in the hub's memory (docs/adr/0013-analytics-results.md).

    python -m hubbub.pipeline.answering FOLDER QUERY

The query and the answer are JSON. What goes wrong is said as an error on stdout, too.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from hubbub.domain.analytics import RowsQuery
from hubbub.domain.errors import HubbubError
from hubbub.pipeline.results import read_rows


def answer(folder: str, query: bytes) -> bytes:
    try:
        rows = read_rows(Path(folder), msgspec.json.decode(query, type=RowsQuery))
    except HubbubError as error:
        return msgspec.json.encode({"error": error.message})
    return msgspec.json.encode({"rows": rows})


if __name__ == "__main__":
    sys.stdout.buffer.write(answer(sys.argv[1], sys.argv[2].encode()))
