"""Documents: changes, snapshots, what producers changed."""

from __future__ import annotations

import pytest

from contract.storage.records import PARTITION, MakeStore, message, open_producer, opened, own
from hubbub.domain.errors import Conflict, StaleOwner
from hubbub.ports.storage import Store
from hubbub.ports.storage.documents import (
    ChangeAppend,
    DocumentHead,
    DocumentPut,
    ListedDocument,
    StoredChange,
)
from hubbub.ports.storage.messages import Append

PLACE = ("demo", "doc:a")
EPOCH = "e1"


def change(version: int, ops: bytes = b'[{"op":"x"}]') -> StoredChange:
    return StoredChange(version, 1000 + version, "ann", f"c{version}", ops)


def append(
    version: int,
    term: int,
    *,
    ops: bytes = b'[{"op":"x"}]',
    epoch: str = EPOCH,
    producer: int = 0,
    sequence: int = 0,
    serial: int = 0,
) -> Append:
    envelope = message(serial, channel=PLACE[1])
    if not serial:
        envelope.payload = b""
    changed = ChangeAppend(epoch, change(version, ops), size=10 * version, digest=b"d")
    return Append(
        envelope,
        "m1",
        PARTITION,
        term,
        producer=producer,
        sequence=sequence,
        change=changed,
    )


def deletion(term: int) -> Append:
    envelope = message(0, channel=PLACE[1], payload=b"")
    gone = ChangeAppend("e2", StoredChange(0, 2000, None, "", b""), size=2, deletes=True)
    return Append(envelope, "m1", PARTITION, term, change=gone)


async def fill(store: Store, term: int, count: int) -> None:
    assert await store.append([append(n, term) for n in range(1, count + 1)]) == [None] * count


@pytest.mark.spec("DOC-03", "the store: every change since the last snapshot")
class DocumentsContract:
    async def test_changes_are_there_after_the_store_was_opened_again(
        self, make_store: MakeStore
    ) -> None:
        async with opened(make_store()) as store:
            await fill(store, await own(store), 3)
            assert await store.read_document("demo", "doc:b") is None
        async with opened(make_store()) as store:
            found = await store.read_document(*PLACE)
            assert found is not None
            size = len(change(1).ops)
            assert found.head == DocumentHead(EPOCH, 3, 1003, 30, 1, 3 * size)
            assert (found.snapshot, found.snapshot_version) == (b"", 0)
            assert found.changes == (change(1), change(2), change(3))
            assert await store.stored_bytes("demo") == 3 * size
            assert await store.read_documents("demo", "", 10) == [
                ListedDocument("doc:a", found.head)
            ]
            assert await store.read_documents("demo", "doc:a", 10) == []
            assert len(await store.read_documents("demo", "", 10, "doc:a")) == 1
            assert await store.read_documents("demo", "", 10, "doc:aa") == []

    async def test_a_change_continues_its_document_under_the_owners_term(
        self, store: Store
    ) -> None:
        term = await own(store)
        await fill(store, term, 2)
        answers = await store.append(
            [
                append(2, term),
                append(4, term),
                append(3, term, epoch="other"),
                append(3, term - 1),
                append(3, term),
                append(4, term),
            ]
        )
        kinds = [type(each) for each in answers]
        assert kinds == [Conflict, Conflict, Conflict, StaleOwner, type(None), type(None)]
        found = await store.read_document(*PLACE)
        assert found is not None
        assert [each.version for each in found.changes] == [1, 2, 3, 4]

    async def test_a_change_and_its_message_are_stored_together_or_not_at_all(
        self, store: Store
    ) -> None:
        term = await own(store)
        assert await store.append([append(1, term, serial=1)]) == [None]
        (refused,) = await store.append([append(1, term, serial=2)])
        assert isinstance(refused, Conflict)
        (refused,) = await store.append([append(2, term, serial=5)])
        assert isinstance(refused, Conflict)
        page = await store.read_after(*PLACE, 0, 10)
        assert [each.serial for each in page.messages] == [1]
        found = await store.read_document(*PLACE)
        assert found is not None
        assert found.head.version == 1

    async def test_a_document_is_read_from_its_newest_snapshot(self, store: Store) -> None:
        term = await own(store)
        await fill(store, term, 5)
        saved = await store.save_snapshot(*PLACE, EPOCH, 3, 1003, b"three", 0, PARTITION, term)
        assert saved is not None
        assert (saved.first, saved.added_bytes) == (1, 5)
        found = await store.read_document(*PLACE)
        assert found is not None
        assert (found.snapshot, found.snapshot_version) == (b"three", 3)
        assert [each.version for each in found.changes] == [4, 5]
        earlier = await store.read_document(*PLACE, at=2)
        assert earlier is not None
        assert (earlier.snapshot, [each.version for each in earlier.changes]) == (b"", [1, 2])
        then = await store.read_document(*PLACE, at_time=1004)
        assert then is not None
        assert (then.snapshot_version, [each.version for each in then.changes]) == (3, [4])
        assert await store.stored_bytes("demo") == 5 * len(change(1).ops) + 5

    async def test_a_snapshot_lets_the_changes_go_that_nobody_has_to_keep(
        self, store: Store
    ) -> None:
        term = await own(store)
        await fill(store, term, 5)
        size = len(change(1).ops)
        await store.save_snapshot(*PLACE, EPOCH, 2, 1002, b"two", 1, PARTITION, term)
        saved = await store.save_snapshot(*PLACE, EPOCH, 4, 1004, b"four", 1, PARTITION, term)
        assert saved is not None
        assert saved.first == 5
        assert await store.stored_bytes("demo") == size + len(b"four")
        gone = await store.read_document(*PLACE, at=3)
        assert gone is not None
        assert gone.snapshot_version > 3
        before = await store.read_document(*PLACE, at_time=1001)
        assert before is not None
        assert before.version == -1
        page = await store.read_document_changes(*PLACE, 0, None, 10)
        assert [each.version for each in page.changes] == [5]

    async def test_a_snapshot_of_another_epoch_or_owner_is_not_kept(self, store: Store) -> None:
        term = await own(store)
        await fill(store, term, 1)
        place = (*PLACE, "other", 1, 1001, b"x", 0, PARTITION)
        assert await store.save_snapshot(*place, term) is None
        with pytest.raises(StaleOwner):
            await store.save_snapshot(*place, term - 1)

    async def test_changes_are_read_in_pages_both_ways(self, store: Store) -> None:
        term = await own(store)
        await fill(store, term, 5)
        page = await store.read_document_changes(*PLACE, 1, None, 2)
        assert ([each.version for each in page.changes], page.more) == ([2, 3], True)
        assert page.bytes_behind == 4 * len(change(1).ops)
        page = await store.read_document_changes(*PLACE, 3, None, 2)
        assert ([each.version for each in page.changes], page.more) == ([4, 5], False)
        page = await store.read_document_changes(*PLACE, 0, 5, 3)
        assert ([each.version for each in page.changes], page.more) == ([2, 3, 4], True)
        page = await store.read_document_changes(*PLACE, 0, 2, 3)
        assert ([each.version for each in page.changes], page.more) == ([1], False)

    @pytest.mark.spec("DOC-02", "a repeat after the change itself is gone")
    async def test_what_a_producer_changed_is_known_for_good(self, store: Store) -> None:
        term = await own(store)
        producer = await open_producer(store, term)
        items = [
            append(1, term, producer=producer.id, sequence=1),
            append(1, term, producer=producer.id, sequence=2, ops=b""),
            append(2, term),
        ]
        assert await store.append(items) == [None] * 3
        assert (await open_producer(store, term)).sequence == 2
        await store.save_snapshot(*PLACE, EPOCH, 2, 1002, b"two", 1, PARTITION, term)
        assert await store.append([deletion(term)]) == [None]
        assert await store.read_document_put(producer.id, 1) == DocumentPut(EPOCH, 1, 1001, b"d")
        assert await store.read_document_put(producer.id, 2) == DocumentPut(EPOCH, 1, 1001, b"d")
        assert await store.read_document_put(producer.id, 3) is None

    async def test_a_deleted_document_begins_anew(self, store: Store) -> None:
        term = await own(store)
        await fill(store, term, 2)
        (refused,) = await store.append([deletion(term - 1)])
        assert isinstance(refused, StaleOwner)
        answers = await store.append(
            [append(3, term), deletion(term), append(1, term, epoch="e2"), append(4, term)]
        )
        assert [type(each) for each in answers] == [type(None)] * 3 + [Conflict]
        found = await store.read_document(*PLACE)
        assert found is not None
        assert (found.head.epoch, found.changes) == ("e2", (change(1),))
        assert await store.stored_bytes("demo") == len(change(1).ops)
        assert await store.append([deletion(term), deletion(term)]) == [None, None]
        assert await store.read_document(*PLACE) is None
        assert await store.stored_bytes("demo") == 0

    async def test_documents_go_with_their_hub(self, store: Store) -> None:
        term = await own(store)
        await fill(store, term, 1)
        await store.delete_hub("demo")
        assert await store.read_document(*PLACE) is None
