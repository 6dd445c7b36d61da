"""The full-text index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from contract.storage.records import (
    PARTITION,
    append,
    delete_before,
    message,
    own,
)
from hubbub.domain.errors import QuotaExceeded, StaleOwner
from hubbub.domain.messages import TEXT, Message
from hubbub.domain.search import phrases_of
from hubbub.ports.storage import Store
from hubbub.ports.storage.search import IndexedChannel, SerialRange, TextHit
from hubbub.storage.sql.search import WINDOW


def said(serial: int, text: str, channel: str = "news", **other: object) -> Message:
    fields: dict[str, Any] = {"payload": text.encode(), "content_type": TEXT, **other}
    return message(serial, channel, **fields)


async def store_all(store: Store, term: int, *messages: Message, search: bool = True) -> None:
    appends = [msgspec.structs.replace(append(each, term), search=search) for each in messages]
    assert await store.append(appends) == [None] * len(messages)


async def channels(store: Store, hub: str = "demo") -> dict[str, IndexedChannel]:
    return {each.name: each for each in await store.read_indexed_channels(hub, "", 100)}


async def hits(
    store: Store, query: str, names: Sequence[str] = ("news",), limit: int = 100
) -> list[TextHit]:
    known = await channels(store)
    spans: Sequence[SerialRange] = [
        SerialRange(known[name].id, 1, known[name].head) for name in names if name in known
    ]
    found: list[TextHit] = []
    while spans:
        part = await store.find_texts("demo", spans, phrases_of(query), limit, True)
        found += part.hits
        spans = part.rest
    return found


async def serials(store: Store, query: str, channel: str = "news") -> list[int]:
    return [each.serial for each in await hits(store, query, (channel,))]


@pytest.mark.spec("LIVE-24")
class SearchContract:
    async def test_words_and_phrases_are_found_the_newest_first(self, store: Store) -> None:
        term = await own(store)
        await store_all(
            store,
            term,
            said(1, "The build is red."),
            said(2, "A red, red car"),
            said(3, "The BUILD became grün: red no more"),
        )
        assert await serials(store, "red") == [3, 2, 1]
        assert await serials(store, "build red") == [3, 1]
        assert await serials(store, '"build is"') == [1]
        assert await serials(store, '"is build"') == []
        assert await serials(store, '"red red"') == [2]
        assert await serials(store, "GRUN") == [3]
        assert await serials(store, "re") == []

    @pytest.mark.parametrize(
        "asked",
        [
            "' OR 1", "a & b", "a | !b", "(a)", "a:*", "NEAR(a b)", "words:a", "a*", "^a", "a\\",
            '"a', 'a""b', "'a' <-> 'b'", "#1", "{a}", "-a", "a AND NOT b", "%_%a", "\x00a", "$1a",
        ],
    )  # fmt: skip
    async def test_no_character_of_a_query_is_syntax(self, store: Store, asked: str) -> None:
        term = await own(store)
        await store_all(store, term, said(1, "something else"), said(2, asked))
        assert 2 in await serials(store, asked)
        assert 1 not in await serials(store, asked)

    async def test_scripts_without_spaces_and_long_words_are_found(self, store: Store) -> None:
        term = await own(store)
        await store_all(
            store,
            term,
            said(1, "東京タワーに行く"),
            said(2, "京東"),
            said(3, "x" * 500),
            said(4, "é"),
        )
        assert await serials(store, "東京") == [1]
        assert await serials(store, "x" * 200) == [3]
        assert await serials(store, "e\u0301") == [4]

    async def test_values_of_json_are_found_and_names_of_members_are_not(
        self, store: Store
    ) -> None:
        term = await own(store)
        payload = b'{"title":"The \\"red\\" build","n":[4711,{"by":"J\\u00f6rg"}],"ok":true}'
        await store_all(store, term, message(1, payload=payload))
        for query in ('"the red build"', "4711", "jorg"):
            assert await serials(store, query) == [1], query
        for query in ("title", "by", "true"):
            assert await serials(store, query) == [], query

    async def test_a_score_rises_with_occurrences_and_falls_with_length(self, store: Store) -> None:
        term = await own(store)
        await store_all(
            store,
            term,
            said(1, "red"),
            said(2, "red red red"),
            said(3, "red " + "filler " * 200),
        )
        score = {each.serial: each.score for each in await hits(store, "red")}
        assert 0 < score[3] < score[1] < score[2] < 1

    async def test_channels_are_searched_apart(self, store: Store) -> None:
        term = await own(store)
        await store_all(store, term, said(1, "red"), said(1, "red", "other"))
        known = await channels(store)
        assert [each.channel_id for each in await hits(store, "red", ("other",))] == [
            known["other"].id
        ]
        both = await hits(store, "red", ("news", "other"))
        assert {each.channel_id for each in both} == {known["news"].id, known["other"].id}

    async def test_only_marked_appends_are_indexed(self, store: Store) -> None:
        term = await own(store)
        await store_all(store, term, said(1, "red"), search=False)
        assert await channels(store) == {}
        await store_all(store, term, said(2, "red"))
        found = (await channels(store))["news"]
        assert (found.indexed, found.head, found.complete) == (0, 2, False)
        assert await serials(store, "red") == []

    async def test_an_index_that_is_switched_on_later_covers_everything(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("hubbub.storage.sql.store._TEXTS_SLICE", 3)
        term = await own(store)
        await store_all(store, term, *(said(n, f"red {n}") for n in range(1, 11)), search=False)
        before = await store.used_bytes("demo")
        await store.index_texts("demo", "news", PARTITION, term)
        assert (await channels(store))["news"].complete
        assert await serials(store, "red") == list(range(10, 0, -1))
        assert await store.used_bytes("demo") >= before + 10 * 100
        await store_all(store, term, said(11, "red"))
        assert await serials(store, "red") == list(range(11, 0, -1))
        await store.drop_texts("demo", "news", PARTITION, term)
        assert await channels(store) == {}
        assert await store.used_bytes("demo") < before + 500
        await store.index_texts("demo", "news", PARTITION, term)
        assert await serials(store, "red") == list(range(11, 0, -1))

    async def test_a_gap_in_marked_appends_is_filled(self, store: Store) -> None:
        term = await own(store)
        await store_all(store, term, said(1, "red"))
        await store_all(store, term, said(2, "red"), search=False)
        await store_all(store, term, said(3, "red"))
        assert await serials(store, "red") == [1]
        await store.index_texts("demo", "news", PARTITION, term)
        assert await serials(store, "red") == [3, 2, 1]

    async def test_an_index_stays_within_the_quota(self, store: Store) -> None:
        term = await own(store)
        await store_all(store, term, *(said(n, "red " * 50) for n in range(1, 21)), search=False)
        used = await store.used_bytes("demo")
        store.bound_by(lambda hub: used + 100)
        with pytest.raises(QuotaExceeded):
            await store.index_texts("demo", "news", PARTITION, term)
        assert await store.used_bytes("demo") <= used + 100

    async def test_only_the_owner_changes_an_index(self, store: Store) -> None:
        term = await own(store)
        await store_all(store, term, said(1, "red"), search=False)
        with pytest.raises(StaleOwner):
            await store.index_texts("demo", "news", PARTITION, term - 1)
        with pytest.raises(StaleOwner):
            await store.drop_texts("demo", "news", PARTITION, term - 1)

    async def test_what_retention_deletes_is_not_found(self, store: Store) -> None:
        term = await own(store)
        await store_all(store, term, *(said(n, "red") for n in range(1, 6)))
        used = await store.used_bytes("demo")
        await delete_before(store, 4, term)
        assert await serials(store, "red") == [5, 4]
        assert await store.used_bytes("demo") < used - 3 * 300
        await delete_before(store, 6, term)
        assert await serials(store, "red") == []
        await store_all(store, term, said(6, "red"))
        assert await serials(store, "red") == [6]

    async def test_erased_messages_are_not_found(self, store: Store) -> None:
        term = await own(store)
        await store_all(
            store,
            term,
            said(1, "red secret", publisher="ann"),
            said(2, "red", publisher="bob"),
        )
        used = await store.used_bytes("demo")
        await store.erase_messages("demo", "news", "ann", 0, 100, PARTITION, term)
        assert await serials(store, "red") == [2]
        assert await serials(store, "secret") == []
        assert await store.used_bytes("demo") < used - 100

    async def test_a_deleted_hub_leaves_no_words(self, store: Store) -> None:
        term = await own(store)
        await store_all(store, term, said(1, "red"))
        await store_all(store, term, said(1, "red", hub="other"))
        assert await store.delete_hub("demo")
        assert await channels(store) == {}
        assert await store.used_bytes("demo") == 0
        assert list(await channels(store, "other")) == ["news"]
        await store_all(store, term, said(1, "blue"))
        assert await serials(store, "red") == []
        assert await serials(store, "blue") == [1]

    async def test_a_long_channel_is_searched_in_parts(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("hubbub.storage.sql.search.WINDOW", 4)
        assert WINDOW > 4
        term = await own(store)
        await store_all(store, term, *(said(n, f"red n{n}") for n in range(1, 12)))
        await store_all(store, term, *(said(n, "red", "other") for n in range(1, 3)))
        assert await serials(store, "n2") == [2]
        assert await serials(store, "red") == list(range(11, 0, -1))
        assert len(await hits(store, "red", ("news", "other"))) == 13
        newest = await hits(store, "red", limit=2)
        assert [each.serial for each in newest] == [11, 10]

    async def test_serials_are_found_by_time(self, store: Store) -> None:
        term = await own(store)
        await store_all(store, term, *(said(n, "red") for n in range(1, 6)))
        news = (await channels(store))["news"]
        asked = [(news, time) for time in (0, 1000, 2500, 5000, 5001)]
        assert await store.first_serials_at("demo", asked) == [1, 1, 3, 5, 6]

    async def test_messages_are_read_by_serial(self, store: Store) -> None:
        term = await own(store)
        await store_all(store, term, *(said(n, f"red {n}") for n in range(1, 6)))
        page = await store.read_messages("demo", "news", [4, 2, 9])
        assert ([each.payload for each in page.messages], page.more) == (
            [b"red 2", b"red 4"],
            False,
        )
