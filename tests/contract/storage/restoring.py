"""Replacing the rows of a hub, all at once, by rows that were loaded beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from contract.storage.records import EPOCH, append, message, own
from hubbub.domain.audit import AuditEntry
from hubbub.domain.errors import Conflict, HubRestoring
from hubbub.ports.storage import Store
from hubbub.ports.storage.administration import AuditQuery
from hubbub.ports.storage.restoring import Value
from hubbub.ports.storage.sessions import SessionSnapshot
from hubbub.ports.storage.settings import SettingsEntry
from hubbub.storage.sql.hub_tables import DERIVED, HubTable, hub_tables

NOTE = AuditEntry(1, "demo", "root", "admin", "hub.restore", "")
ROWS = 3


def rows_of(table: HubTable, ids: dict[str, list[int]], text: str) -> list[list[Value]]:
    """Rows that differ in every column."""
    rows: list[list[Value]] = []
    for n in range(1, ROWS + 1):
        values: dict[str, Value] = {"text": f"{text}{n}", "bigint": n, "bytea": b"%d" % n}
        row = {column: values[kind] for column, kind in table.columns.items()}
        row |= {column: ids[parent][n - 1] for column, parent in table.parents.items()}
        if "attributes" in row:
            row["attributes"] = None
        if "hub" in row:
            row["hub"] = "demo"
        rows.append(list(row.values()))
    return rows[:1] if table.key == ("hub",) else rows


async def stage(
    store: Store, restore: str, text: str = "a\x00\x01", tables: Sequence[str] = ()
) -> dict[str, list[int]]:
    """Rows in every table that a restore replaces, or in some; answers the ids by table."""
    await store.begin_restore(restore)
    ids: dict[str, list[int]] = {}
    for name, table in hub_tables().items():
        if name not in DERIVED and (not tables or name in tables):
            ids[name] = await store.stage_rows(restore, name, rows_of(table, ids, text))
    return ids


@pytest.mark.spec("OPS-04")
class RestoringContract:
    async def test_staged_rows_of_every_table_take_the_place_of_the_hub(self, store: Store) -> None:
        term = await own(store)
        await store.append([append(message(n), term) for n in range(1, 6)])
        await store.append([append(message(1, hub="other"), term)])
        await store.put_settings([SettingsEntry("rules", "demo", "x", b"1")])
        ids = await stage(store, "r1")
        assert all(
            len(set(of_table)) == ROWS * hub_tables()[name].counted
            for name, of_table in ids.items()
        )
        before = await store.count_hub_rows("demo")
        assert (before["channels"], before["messages"], before["webhooks"]) == (1, 5, 0)
        await store.audited(NOTE).switch_hub("r1", "demo")
        after = dict(await store.count_hub_rows("demo"))
        assert after.pop("hub_usage") == 1
        assert {rows for name, rows in after.items() if hub_tables()[name].of_hub} == {ROWS}
        assert await store.read_head("demo", "news") is None
        page = await store.read_after("demo", "a\x00\x011", 0, 10)
        assert [found.payload for found in page.messages] == [b"1"]
        assert (await store.read_after("other", "news", 0, 10)).head is not None
        await store.discard_restore("r1")
        assert await store.read_restores() == []
        assert await store.count_hub_rows("demo") == after | {"hub_usage": 1}
        (entry,) = await store.read_audit(AuditQuery(10))
        assert entry.action == "hub.restore"

    async def test_what_is_staged_is_in_no_read_of_all_hubs(self, store: Store) -> None:
        """A read without a hub that is added later has to be named here."""
        await own(store)
        await stage(store, "r1")
        reads = {
            "read_settings": store.read_settings(),
            "read_stored_hubs": store.read_stored_hubs(),
            "read_cursor_page": store.read_cursor_page(None, 10),
            "read_due_notifications": store.read_due_notifications(100, ("", ""), 10),
            "read_topic_keys": store.read_topic_keys(None),
            "read_pinged": store.read_pinged(range(10)),
            "read_webhooks": store.read_webhooks(partitions=list(range(10))),
            "read_unexported": store.read_unexported(None, 10),
            "list_channel_records": store.list_channel_records(("", ""), 10),
            "read_busy_hubs": store.read_busy_hubs(),
        }
        found = dict(zip(reads, await asyncio.gather(*reads.values()), strict=True))
        assert {name: rows for name, rows in found.items() if rows} == {}
        # By a term, a key or an id, not by a hub; the last finds what is staged, as it should.
        others = {
            "read_terms",
            "read_document_put",
            "read_audit",
            "read_revocations",
            "read_session",
            "read_restores",
        }
        common = {name for name in dir(type(store)) if _is_common_read(type(store), name)}
        assert common == reads.keys() - {"read_webhooks"} | others

    async def test_a_restore_that_was_given_up_changes_nothing(self, store: Store) -> None:
        await stage(store, "r1", tables=("settings", "channels", "messages", "producers"))
        assert await store.read_restores() == ["r1"]
        assert await store.give_up_restore("r1") is True
        assert await store.give_up_restore("r1") is False
        with pytest.raises(Conflict, match="given up"):
            await store.audited(NOTE).switch_hub("r1", "demo")
        assert await store.read_settings() == []
        assert await store.read_audit(AuditQuery(10)) == []
        await store.discard_restore("r1")
        assert await store.read_restores() == []

    async def test_restores_of_a_hub_do_not_mix(self, store: Store) -> None:
        await stage(store, "r1", "one")
        await stage(store, "r2", "two")
        await store.switch_hub("r2", "demo")
        await store.discard_restore("r2")
        assert {each.name for each in await store.read_settings()} == {"two1", "two2", "two3"}
        await store.switch_hub("r1", "demo")
        await store.discard_restore("r1")
        assert {each.name for each in await store.read_settings()} == {"one1", "one2", "one3"}
        assert await store.read_restores() == []

    async def test_versions_that_somebody_saw_mean_no_restored_setting(self, store: Store) -> None:
        for value in (b"1", b"2", b"3", b"4"):
            await store.put_settings([SettingsEntry("rules", "demo", "x", value)])
        await stage(store, "r1", tables=("settings",))
        await store.switch_hub("r1", "demo")
        versions = {each.name: each.version for each in await store.read_settings("demo")}
        assert min(versions.values()) > 4

    async def test_restorable_sessions_of_the_hub_go(self, store: Store) -> None:
        snapshots = [
            SessionSnapshot(hub.encode(), hub, "s", b"state", 100) for hub in ("demo", "other")
        ]
        await store.save_sessions(snapshots)
        await stage(store, "r1", tables=("settings",))
        await store.switch_hub("r1", "demo")
        assert await store.read_session(b"demo", 1) is None
        assert await store.read_session(b"other", 1) is not None

    async def test_held_writes_are_refused_and_those_before_are_done(self, store: Store) -> None:
        term = await own(store)
        under_way = asyncio.ensure_future(store.append([append(message(1), term)]))
        await asyncio.sleep(0)
        store.hold_writes("demo", HubRestoring("not now"))
        with pytest.raises(HubRestoring):
            await store.append([append(message(2), term)])
        assert await store.append([append(message(1, hub="other"), term)]) == [None]
        await store.settle_writes("demo")
        head = await store.read_head("demo", "news")
        assert head is not None
        assert (head.head, await under_way) == (1, [None])
        store.release_writes("demo")
        assert await store.append([append(message(2), term)]) == [None]

    async def test_an_append_to_a_channel_of_before_is_refused(self, store: Store) -> None:
        """Whoever still holds the replaced epoch cannot write into the restored channel."""
        term = await own(store)
        await store.append([append(message(1), term)])
        columns = hub_tables()["channels"].columns
        row = dict.fromkeys(columns, 1) | {"hub": "demo", "name": "news", "epoch": "other"}
        await store.begin_restore("r1")
        await store.stage_rows("r1", "channels", [list(row.values())])
        await store.switch_hub("r1", "demo")
        assert EPOCH != "other"
        (refused,) = await store.append([append(message(2), term)])
        assert isinstance(refused, Conflict)


def _is_common_read(store: type, name: str) -> bool:
    """Whether this method of a SQL store reads in the lane that hubs share."""
    method = getattr(store, name)
    cells = dict(
        zip(
            getattr(getattr(method, "__code__", None), "co_freevars", ()),
            (cell.cell_contents for cell in getattr(method, "__closure__", None) or ()),
            strict=False,
        )
    )
    lane, inner = cells.get("lane"), cells.get("method")
    owner = getattr(inner, "__qualname__", "").partition(".")[0]
    return getattr(lane, "__name__", "") == "_common" and owner.endswith("Reads")
