"""Executes one query on a table and exits. The hub starts it as a separate process, so that neither
Arrow nor a large table is loaded into the hub's memory (docs/adr/0013-analytics-results.md).

python -m hubbub.pipeline.answering FOLDER QUERY

Query and result are JSON. Errors are written to stdout as well.
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
