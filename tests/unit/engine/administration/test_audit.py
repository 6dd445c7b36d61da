"""Entries that the owner of a channel was asked to store with its change."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hubbub.domain.permissions import Identity, Level
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.audit import AuditLog
from hubbub.ports.storage.administration import AuditQuery
from hubbub.server.clock import SystemClock
from hubbub.storage.sqlite.store import SqliteStore

pytestmark = pytest.mark.spec("ADMIN-03")

ACTOR = Actor(Identity(user_id="root", level=Level.ADMIN))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "hubbub.db")
    await store.open()
    yield store
    await store.close()


async def actions(store: SqliteStore) -> list[str]:
    return [entry.action for entry in await store.read_audit(AuditQuery(10))]


async def test_an_entry_that_an_older_owner_left_out_is_stored_afterwards(
    store: SqliteStore,
) -> None:
    log = AuditLog(store, SystemClock(), many_nodes=True)
    entry = log.entry(ACTOR, "document.patch", "acme", "doc:a")
    await log.ensure(entry)
    assert await actions(store) == ["document.patch"]


async def test_an_entry_that_the_owner_stored_is_not_stored_again(store: SqliteStore) -> None:
    log = AuditLog(store, SystemClock(), many_nodes=True)
    entry = log.entry(ACTOR, "document.patch", "acme", "doc:a")
    await store.append_audit(entry)
    await store.append_audit(log.entry(ACTOR, "rules.put", "acme", "r"))
    await log.ensure(entry)
    assert await actions(store) == ["rules.put", "document.patch"]
