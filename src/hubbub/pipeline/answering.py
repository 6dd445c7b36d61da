"""Executes one query on a table and exits. The hub starts it as a separate process, so that neither
Arrow nor a large table is loaded into the hub's memory (docs/adr/0013-analytics-results.md).

python -m hubbub.pipeline.answering FOLDER QUERY

Query and result are JSON. Errors are written to stdout as well.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

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


class WithoutPandas(MetaPathFinder):
    """Lets Arrow find no Pandas, which it would import wherever Spark brought it along: 35 MB and a
    third of the time of an answer, for nothing."""

    def find_spec(self, fullname: str, *_: Any) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("answers do without Pandas", name=fullname)


if __name__ == "__main__":
    sys.meta_path.insert(0, WithoutPandas())
    sys.stdout.buffer.write(answer(sys.argv[1], sys.argv[2].encode()))
