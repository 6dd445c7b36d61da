"""How rows of a backup change on their way into a hub."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec
import pytest

from hubbub.domain.commands.objects import HChannel
from hubbub.domain.cursors import CursorRecord
from hubbub.domain.errors import ArchiveRefused
from hubbub.domain.messages import Attributes, Message
from hubbub.domain.names import partition_of
from hubbub.domain.permissions import Identity, Reader
from hubbub.domain.topics import SubscriptionOptions
from hubbub.domain.webhooks import PendingVerification
from hubbub.ports.storage.restoring import Value
from hubbub.storage.sql.hub_tables import DERIVED, HubTable, hub_tables
from hubbub.storage.sql.records import from_blob, to_blob
from hubbub.storage.sql.restored_rows import RowConversion

pytestmark = pytest.mark.spec("OPS-04")

CURSOR = CursorRecord(SubscriptionOptions(), "seen", 1, 1)
READER = Reader(Identity(user_id="ann"))
PACKED: dict[tuple[str, str], object] = {
    ("channel_records", "record"): HChannel("room", "ann@acme", ("ann@acme",), True),
    ("cursors", "state"): CURSOR,
    ("messages", "attributes"): Attributes(),
    ("push_followings", "acting"): READER,
    ("push_tokens", "acting"): READER,
    ("retained", "message"): Message("m1", "acme", "news", "e", b"1", "application/json", 1),
    ("webhooks", "acting"): READER,
    ("webhooks", "pending"): PendingVerification("subscribe", 1),
}
SAME = RowConversion("acme", "acme")
COPY = RowConversion("acme", "copy")


def row_of(table: HubTable, **values: Value) -> list[Value]:
    plain: dict[str, Value] = {"text": "t", "bigint": 7, "bytea": b"b"}
    given = {name: plain[kind] for name, kind in table.columns.items()}
    if table.of_hub:
        given["hub"] = "acme"
    for (name, column), value in PACKED.items():
        if name == table.name:
            given[column] = msgspec.msgpack.encode(value)
    return list({**given, **values}.values())


def converted(
    conversion: RowConversion, table_name: str, /, **values: Value
) -> Mapping[str, Value] | None:
    table = hub_tables()[table_name]
    row = conversion.convert(table, row_of(table, **values))
    return None if row is None else dict(zip(table.columns, row, strict=True))


def test_positions_of_channels_documents_and_notifications_become_void() -> None:
    for name in ("channels", "documents", "notification_channels"):
        rows = [converted(RowConversion("a", "a"), name, epoch="seen") for _ in range(2)]
        assert len({"seen", *(row["epoch"] for row in rows if row is not None)}) == 3
    put = converted(SAME, "document_puts", epoch="seen")
    assert put is not None
    assert put["epoch"] == "seen", "what a producer was answered stays true"


@pytest.mark.spec("LIVE-24")
def test_a_search_index_is_made_again_from_the_restored_messages() -> None:
    assert converted(SAME, "search_texts") is None
    channel = converted(SAME, "channels", searched=7)
    assert channel is not None
    assert channel["searched"] == 0
    never = converted(SAME, "channels", searched=None)
    assert never is not None
    assert never["searched"] is None


@pytest.mark.parametrize("name", [name for name in hub_tables() if name not in DERIVED])
def test_nothing_else_changes_in_a_hub_of_the_same_name(name: str) -> None:
    table = hub_tables()[name]
    row = converted(SAME, name)
    assert row is not None, "every row of a hub is restored"
    changed = {
        column
        for column, before in zip(table.columns, row_of(table), strict=True)
        if row[column] != before
    }
    assert changed <= {
        "epoch",
        "partition_id",
        "searched",
        *(["state"] if name == "cursors" else []),
    }


def test_a_durable_subscription_goes_on_where_it_stood() -> None:
    channel = converted(SAME, "channels", name="news", epoch="seen")
    current = converted(SAME, "cursors", channel="news", floor=3)
    state = msgspec.msgpack.encode(msgspec.structs.replace(CURSOR, epoch="before"))
    outdated = converted(SAME, "cursors", channel="news", state=state)
    assert channel is not None
    assert current is not None
    assert outdated is not None
    assert current["floor"] == 3
    assert epoch_of(current) == channel["epoch"]
    assert epoch_of(outdated) not in (channel["epoch"], "before")


def epoch_of(cursor: Mapping[str, Value]) -> str:
    assert isinstance(cursor["state"], bytes)
    return msgspec.msgpack.decode(cursor["state"], type=CursorRecord).epoch


def test_webhooks_and_topics_fall_into_the_partitions_of_the_new_name() -> None:
    topic = converted(COPY, "web_topics", channel="news")
    assert topic is not None
    assert topic["partition_id"] == partition_of("copy", "news") != partition_of("acme", "news")
    assert converted(COPY, "web_topics", partition_id=None) == {**topic, "channel": "t"} | {
        "partition_id": None
    }


def test_a_hub_of_another_name_does_not_send_to_the_same_receivers() -> None:
    for name in (
        *("webhooks", "push_tokens", "push_followings", "push_credentials", "comm_deliveries"),
    ):
        assert converted(COPY, name) is None
    assert converted(COPY, "cursors", owner="webhook") is None
    assert converted(COPY, "cursors", owner="u:ann") is not None
    message = converted(COPY, "comm_messages", state=2, plan=b"plan")
    assert message is not None
    assert (message["state"], message["plan"]) == (0, None)


def test_what_names_the_hub_names_the_new_one() -> None:
    message = Message(
        id="m",
        hub="acme",
        channel="c",
        event="e",
        payload=b"1",
        content_type="text/plain",
        published_at=1,
    )
    retained = converted(COPY, "retained", message=to_blob(message))
    assert retained is not None
    assert isinstance(retained["message"], bytes)
    assert from_blob(retained["message"]).hub == "copy"
    record = HChannel("c", "ann@acme", ("ann@acme", "bob@other", "c%40d@acme"), True)
    owned = converted(
        COPY, "channel_records", owner="ann@acme", record=msgspec.msgpack.encode(record)
    )
    assert owned is not None
    assert owned["owner"] == "ann@copy"
    assert isinstance(owned["record"], bytes)
    renamed = msgspec.msgpack.decode(owned["record"], type=HChannel)
    assert renamed.owner == "ann@copy"
    assert renamed.participants == ("ann@copy", "bob@other", "c%40d@copy")


@pytest.mark.spec("OPS-03")
@pytest.mark.parametrize(("table", "column"), [*PACKED, ("settings", "value")])
def test_what_the_nodes_could_not_read_is_refused(table: str, column: str) -> None:
    kinds = ("hub", "rules", "declared") if table == "settings" else ("",)
    for kind in kinds:
        given = {"kind": kind} if kind else {}
        for value in (b"\xc1", b'"', b"\xff", "text"):
            with pytest.raises(ArchiveRefused):
                converted(SAME, table, **given, **{column: value})


@pytest.mark.spec("SEC-02")
def test_a_retained_message_belongs_to_the_hub_whatever_it_says() -> None:
    message = Message("m1", "victim", "news", "e", b"1", "application/json", 1)
    row = converted(SAME, "retained", message=to_blob(message))
    assert row is not None
    assert from_blob(cast(bytes, row["message"])).hub == "acme"
