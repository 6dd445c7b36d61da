"""Audit and revocations.."""

from __future__ import annotations

import pytest

from contract.storage.records import (
    PARTITION,
    MakeStore,
    audit,
    fill,
    message,
    own,
    serials,
)
from hubbub.domain.errors import VersionMismatch
from hubbub.domain.push.tokens import PushToken
from hubbub.ports.storage import Store
from hubbub.ports.storage.administration import AuditQuery, Revocation
from hubbub.ports.storage.sessions import SessionSnapshot
from hubbub.ports.storage.settings import SettingsEntry
from hubbub.ports.storage.topics import SavedCursor


class AdministrationContract:
    @pytest.mark.spec("ADMIN-01")
    async def test_a_change_and_its_audit_are_stored_together(self, make_store: MakeStore) -> None:
        store = make_store()
        await store.open()
        entry = SettingsEntry("rules", "h", "a", b"1")
        await store.audited(audit("put")).put_settings([entry], {"a": 0})
        with pytest.raises(VersionMismatch):
            await store.audited(audit("refused")).put_settings([entry], {"a": 0})
        await store.audited(audit("refused")).delete_settings("rules", "h", "other")
        await store.audited(audit("delete")).delete_settings("rules", "h", "a")
        await store.close()
        store = make_store()
        await store.open()
        found = await store.read_audit(AuditQuery(limit=10))
        assert [entry.action for entry in found] == ["delete", "put"]
        assert found[1] == audit("put", id=found[1].id)
        await store.close()

    @pytest.mark.spec("ADMIN-01")
    async def test_audit_is_read_newest_first_by_hub_actor_and_action(self, store: Store) -> None:
        for number in range(6):
            await store.append_audit(
                audit("even" if number % 2 == 0 else "odd", at=number, hub=f"h{number // 3}")
            )
        await store.append_audit(audit("even", actor="bob", before=None, token_id=None))

        async def times(limit: int = 10, **which: object) -> list[int]:
            query = AuditQuery(limit=limit, **which)  # type: ignore[arg-type]
            return [entry.at for entry in await store.read_audit(query)]

        assert await times(hub="h1") == [5, 4, 3]
        assert await times(hub="h0", action="even") == [2, 0]
        assert await times(actor="bob") == [7]
        first = await store.read_audit(AuditQuery(limit=3))
        assert [entry.at for entry in first] == [7, 5, 4]
        assert await times(2, before_id=first[-1].id) == [3, 2]
        assert await store.delete_audit_before(3) == 3
        assert await times() == [7, 5, 4, 3]

    @pytest.mark.spec("ADMIN-03")
    async def test_revocations_only_ever_widen_until_they_expire(self, store: Store) -> None:
        token = Revocation("h", "token", "t1", 0, 100)
        user = Revocation("h", "user", "ann", 50, 100)
        other = Revocation("*", "token", "t1", 0, 200)
        await store.audited(audit("revoke")).save_revocation(token)
        await store.save_revocation(user)
        await store.save_revocation(other)
        await store.save_revocation(Revocation("h", "user", "ann", 40, 90))
        assert await store.read_revocations("h", 99) == [token, user]
        assert await store.read_revocations(None, 99) == [other, token, user]
        assert await store.read_revocations(None, 100) == [other]
        assert len(await store.read_audit(AuditQuery(limit=9))) == 1
        assert await store.delete_expired(100) == 2
        assert await store.read_revocations(None, 0) == [other]

    @pytest.mark.spec("ADMIN-01", "OPS-03")
    async def test_a_deleted_hub_leaves_nothing_but_audit_and_revocations(
        self, store: Store
    ) -> None:
        term = await fill(store, 2500, hub="gone")
        await fill(store, 3, hub="stays")
        await store.put_settings(
            [SettingsEntry("hub", hub, "", b"{}") for hub in ("gone", "stays")]
        )
        await store.save_push_token(PushToken("gone", "ann", "fcm", "t1"))
        await store.save_sessions([SessionSnapshot(b"key", "gone", "s", b"", 100)])
        await store.save_revocation(Revocation("gone", "hub", "", 1, 100))
        term = await own(store)
        await store.save_retained(message(0, "a", "gone"), 100, PARTITION, term)
        await store.open_producer("gone", "news", "u:ann", "p", PARTITION, term, True, 100)
        await store.save_cursor(SavedCursor("gone", "news", "u:ann", "a", 0, b""), PARTITION, term)
        assert await store.audited(audit("delete", hub="gone")).delete_hub("gone") is True
        assert [entry.hub for entry in await store.read_settings()] == ["stays"]
        assert await store.read_head("gone", "news") is None
        assert await store.read_cursors("gone") == []
        anew = await store.open_producer("gone", "news", "u:ann", "p", PARTITION, term, False, 100)
        assert (anew.fence, anew.sequence) == (0, 0)
        await store.delete_hub("gone")
        assert await store.stored_bytes("gone") == 0
        assert await store.read_retained("gone", "a", 0) is None
        assert await store.read_session(b"key", 0) is None
        assert await store.read_push_tokens("gone", ["ann"]) == []
        assert len(await store.read_revocations("gone", 0)) == 1
        assert await store.audited(audit("delete")).delete_hub("gone") is False
        assert len(await store.read_audit(AuditQuery(limit=9))) == 1
        assert serials(await store.read_after("stays", "news", 0, 9)) == [1, 2, 3]
        assert await store.stored_bytes("stays") == 30
