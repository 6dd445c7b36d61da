"""A small warehouse with something in each view that the report shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.warehouse import write_warehouse
from harness.warehouse_rows import TABLES


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "warehouse"
    write_warehouse(folder, TABLES)
    return folder
