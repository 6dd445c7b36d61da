"""The store's contract on PostgreSQL, and what only a server that others share can go through."""

from __future__ import annotations

import pytest

from contract.store_contract import MakeStore, StoreContract
from harness.postgres import TestDatabase
from hubbub.storage.postgres import PostgresStore


class TestPostgresStore(StoreContract):
    @pytest.fixture
    def make_store(self, database: TestDatabase) -> MakeStore:
        return lambda: PostgresStore(database.options)
