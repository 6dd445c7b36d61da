"""The views: each answers one question, from materialised tables; a module has those of a subject.

`docs/analytics.md` says what each one answers. Nothing here needs Spark.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from hubbub.domain.analytics import TABLES
from hubbub.pipeline.views.view import View

_MODULES: Final = (
    *("traffic", "latency", "sessions", "activity", "conversations", "peers", "success"),
    *("trending", "audit", "shared_state", "forecast"),
)
_BY_NAME: Final[dict[str, View]] = {
    view.name: view for module in _MODULES for view in import_module(f"{__name__}.{module}").VIEWS
}

VIEWS: Final = {table.name: _BY_NAME[table.name] for table in TABLES}
"""By name, each after those that it reads."""
