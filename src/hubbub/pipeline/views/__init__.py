"""Answers that are no SQL: the forecast of load, and how good it is. All others are in `models/`.

`docs/analytics.md` describes each of them. Nothing here needs Spark.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from hubbub.domain.analytics import TABLES
from hubbub.pipeline.views.view import View

_BY_NAME: Final = {
    one.name: one
    for module in iter_modules(__path__)
    for one in vars(import_module(f"{__name__}.{module.name}")).values()
    if isinstance(one, View)
}

VIEWS: Final = {table.name: _BY_NAME[table.name] for table in TABLES if table.name in _BY_NAME}
"""Views by name, each after the views that it reads."""
