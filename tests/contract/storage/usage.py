"""What a hub takes: counted in the transactions that change it, and bounded."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest

from contract.storage.commands import MANY, record
from contract.storage.push import device
from contract.storage.records import PARTITION, MakeStore, append, cursor, message, opened, own
from contract.storage.webhooks import webhook
from hubbub.domain.errors import HubbubError, QuotaExceeded
from hubbub.domain.messages import Attributes
from hubbub.ports.storage import Store
from hubbub.storage.sql.records import ENVELOPE_SIZE
from hubbub.storage.sql.schema import SQLITE, load_migrations
from hubbub.storage.sql.usage import PUT_BYTES

Query = Callable[[str], Awaitable[Sequence[Sequence[Any]]]]
"""Reads rows of the store's database, beside the store."""

_COUNTED = re.compile(r"INSERT INTO hub_usage .* (SELECT hub, 0, sum\(.*\) FROM \w+ GROUP BY hub) ")
_ENVELOPE = ENVELOPE_SIZE.replace("length(id)", "length(messages.id)")
_BY_PARENT = (
    f"SELECT hub, sum(length(payload)), sum({_ENVELOPE}) FROM messages"
    " JOIN channels ON channels.id = channel_id GROUP BY hub",
    "SELECT hub, 0, sum(size) FROM search_texts"
    " JOIN channels ON channels.id = channel_id GROUP BY hub",
    "SELECT hub, sum(length(payload)), 0 FROM notifications"
    " JOIN notification_channels c ON c.id = channel_id GROUP BY hub",
    "SELECT hub, sum(length(ops)), 0 FROM document_changes"
    " JOIN documents ON documents.id = document_id GROUP BY hub",
    "SELECT hub, sum(length(content)), 0 FROM document_snapshots"
    " JOIN documents ON documents.id = document_id GROUP BY hub",
    f"SELECT hub, 0, count(*) * {PUT_BYTES} FROM document_puts"
    " JOIN producers ON producers.id = producer_id GROUP BY hub",
)
"""What the writer counts itself: payloads and the rest by hub."""


async def recount(query: Query) -> dict[str, tuple[int, int]]:
    """Stored and other bytes by hub, from the rows."""
    statements = [text for each in load_migrations(SQLITE) for text in each.statements]
    of_tables = [found[1] for text in statements if (found := _COUNTED.match(text))]
    assert len(of_tables) > 15
    sums: dict[str, tuple[int, int]] = {}
    for statement in (*_BY_PARENT, *of_tables):
        for hub, stored, other in await query(statement):
            before = sums.get(hub, (0, 0))
            sums[hub] = before[0] + int(stored), before[1] + int(other)
    return sums


async def check_counts(query: Query) -> None:
    """That what was counted is what is there, but for half a percent: SQLite measures text up to
    the first zero character, which only tests bring."""
    rows = await query("SELECT hub, stored_bytes, other_bytes FROM hub_usage")
    counted = {hub: (int(stored), int(other)) for hub, stored, other in rows}
    found = await recount(query)
    for hub in counted.keys() | found.keys():
        assert counted.get(hub, (0, 0)) == pytest.approx(found.get(hub, (0, 0)), rel=0.005), hub


class UsageContract:
    """Part of `StoreContract`, which has the fixtures, and which recounts after every test."""

    async def test_whatever_happens_the_bytes_counted_are_those_of_the_rows(
        self, store: Store, query: Query
    ) -> None:
        chance = random.Random(29)
        term = await own(store)
        heads = dict.fromkeys("abc", 0)

        async def publish() -> None:
            channel = chance.choice("abc")
            heads[channel] += 1
            attributes = Attributes(conversation_id=text()) if chance.random() < 0.3 else None
            item = message(
                heads[channel], channel, payload=payload(), event=text(), attributes=attributes
            )
            assert await store.append([append(item, term, chance.choice([None, 10**15]))]) == [None]

        def text() -> str:
            return "t" * chance.randint(1, 50)

        def payload() -> bytes:
            return b"x" * chance.choice([0, 1, 1000])

        async def any_name(call: Callable[..., Awaitable[object]], *more: object) -> None:
            await call("demo", chance.choice("abc"), *more)

        operations: list[Callable[[], Awaitable[object]]] = [
            publish,
            publish,
            lambda: store.save_retained(
                message(1, chance.choice("abc"), payload=payload()), 10**15, PARTITION, term
            ),
            lambda: any_name(store.delete_retained, PARTITION, term),
            lambda: any_name(store.delete_before, chance.randint(1, 20), PARTITION, term),
            lambda: any_name(store.erase_messages, "u", 0, 10, PARTITION, term),
            lambda: store.save_channel_record(
                "demo", record(chance.choice("abc"), chdesc=text()), MANY, MANY
            ),
            lambda: store.add_user_subscription("demo", chance.choice("abc"), text()),
            lambda: store.delete_user_subscriptions_of("demo", text()),
            lambda: store.save_cursor(
                msgspec.structs.replace(cursor(chance.choice("xy")), state=payload()),
                PARTITION, term,
            ),
            lambda: any_name(store.delete_cursor, "u:ann", chance.choice("xy"), PARTITION, term),
            lambda: store.save_webhook(webhook(chance.choice("abc"), pending=None, owner=text())),
            lambda: any_name(
                store.open_producer, text(), "p", PARTITION, term, chance.random() < 0.5, 100
            ),
            lambda: store.save_push_token(device(chance.choice("uv"), text())),
            lambda: store.delete_expired(chance.choice([0, 10**15 + 1])),
        ]  # fmt: skip
        for _ in range(150):
            await chance.choice(operations)()
        await check_counts(query)
        assert await store.used_bytes("demo") > 1000
        await store.delete_hub("demo")
        assert await store.used_bytes("demo") == 0

    async def test_a_hub_over_its_quota_keeps_what_it_has_and_may_only_shrink(
        self, store: Store
    ) -> None:
        assert await store.save_channel_record("demo", record(chdesc="d" * 500), MANY, MANY)
        used = await store.used_bytes("demo")
        store.bound_by(lambda hub: 100 if hub == "demo" else 0)
        term = await own(store)
        refused: list[Awaitable[object]] = [
            store.save_channel_record("demo", record("more"), MANY, MANY),
            store.save_channel_record("demo", record(chdesc="d" * 501), MANY, MANY),
            store.save_retained(message(1), 10**15, PARTITION, term),
            store.create_cursor(cursor(), PARTITION, term),
            store.create_webhook(webhook()),
            store.open_producer("demo", "news", "u:ann", "p", PARTITION, term, False, 9),
            store.add_user_subscription("demo", "news", "ann"),
            store.save_push_token(device("ann")),
        ]
        for write in refused:
            with pytest.raises(QuotaExceeded, match="quota of 100 stored bytes"):
                await write
        assert await store.used_bytes("demo") == used
        assert await store.save_channel_record("demo", record(chdesc="d" * 499), MANY, MANY)
        assert await store.used_bytes("demo") == used - 1
        await store.save_cursor(cursor(), PARTITION, term)  # progress is not refused
        assert await store.delete_cursor("demo", "news", "u:ann", "a", PARTITION, term)
        await store.save_channel_record("other", record(chdesc="d" * 500), MANY, MANY)

    async def test_a_refused_write_leaves_others_of_its_batch_alone(
        self, make_store: MakeStore
    ) -> None:
        async with opened(make_store()) as store:
            store.bound_by(lambda hub: 1000 if hub == "demo" else 0)
            writes = [
                store.save_channel_record(hub, record(f"c{n}", chdesc="d" * 300), MANY, MANY)
                for n in range(4)
                for hub in ("demo", "other")
            ]
            answers = await asyncio.gather(*writes, return_exceptions=True)
            refused = [isinstance(each, HubbubError) for each in answers]
            assert refused[1::2] == [False] * 4
            assert refused[0::2] == [False, True, True, True]
            assert 500 < await store.used_bytes("demo") <= 1000
