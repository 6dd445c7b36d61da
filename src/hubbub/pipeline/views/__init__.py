"""The views: each answers one question, in a module of its own name, from materialised tables.

`docs/analytics.md` says what each one answers. Nothing here needs Spark.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from hubbub.domain.analytics import TABLES
from hubbub.pipeline.views.view import View

VIEWS: Final[dict[str, View]] = {
    table.name: import_module(f"{__name__}.{table.name}").VIEW for table in TABLES
}
"""By name, each after those that it reads."""
