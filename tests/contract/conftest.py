"""Lets the suites of this folder be imported by the modules that run them over an adapter."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
pytest.register_assert_rewrite(
    "contract.bus_contract", "contract.store_contract", "contract.storage"
)
