"""The store's contract on SQLite."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.store_contract import MakeStore, StoreContract
from hubbub.storage.sqlite import SqliteStore


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def make_store(self, tmp_path: Path) -> MakeStore:
        return lambda: SqliteStore(tmp_path / "data" / "hubbub.db")
