"""Forgetting a user."""

from __future__ import annotations

import pytest

from contract.storage import documents
from contract.storage.records import PARTITION, message, open_producer, own, put
from hubbub.ports.storage import Store
from hubbub.ports.storage.topics import ProducerRecord

ANN, BOB = "u:ann", "u:bob"


@pytest.mark.spec("ADMIN-03")
class ErasureContract:
    @pytest.mark.parametrize("most", [1, 2, 500])
    async def test_retained_messages_of_a_user_are_found_slice_by_slice(
        self, store: Store, monkeypatch: pytest.MonkeyPatch, most: int
    ) -> None:
        monkeypatch.setattr("hubbub.storage.sql.store._RETAINED_SLICE", most)
        term = await own(store)
        for number, channel in enumerate("abcde"):
            kept = message(1, channel, publisher="ann" if number % 2 else "bob")
            await store.save_retained(kept, 10_000, PARTITION, term)
        await store.save_retained(
            message(1, "a", "other", publisher="ann"), 10_000, PARTITION, term
        )
        assert await store.find_retained("demo", "ann") == ["b", "d"]
        assert await store.find_retained("demo", "bob") == ["a", "c", "e"]
        assert await store.find_retained("demo", "an") == []

    @pytest.mark.parametrize("most", [1, 2, 2000])
    async def test_changes_of_documents_lose_their_author(
        self, store: Store, monkeypatch: pytest.MonkeyPatch, most: int
    ) -> None:
        monkeypatch.setattr("hubbub.storage.sql.store._INDEX_SLICE", most)
        await documents.fill(store, await own(store), 3)
        assert await store.anonymise_changes("demo", "bob") == 0
        assert await store.anonymise_changes("other", "ann") == 0
        assert await store.count_named("demo", "ann", ANN) == 3
        assert await store.anonymise_changes("demo", "ann") == 3
        assert await store.count_named("demo", "ann", ANN) == 0
        found = await store.read_document(*documents.PLACE)
        assert found is not None
        assert [each.author for each in found.changes] == [None] * 3
        assert [each.version for each in found.changes] == [1, 2, 3]

    async def test_producers_go_to_an_alias_with_their_sequences(self, store: Store) -> None:
        term = await own(store)
        mine = await open_producer(store, term, who=ANN)
        others = await open_producer(store, term, who=BOB)
        assert await store.append([put(message(1), term, mine, 1)]) == [None]
        assert await store.count_named("demo", "ann", ANN) == 1
        assert await store.rename_producers("demo", ANN, "erased:1") == 1
        assert await store.count_named("demo", "ann", ANN) == 0
        assert await store.read_producer("demo", "news", ANN, "p") is None
        kept = await store.read_producer("demo", "news", "erased:1", "p")
        assert kept == ProducerRecord(mine.id, 0, 1)
        assert await store.read_producer("demo", "news", BOB, "p") == others
        assert (await open_producer(store, term, who=ANN)).sequence == 0, "a new one"
