"""Outbox and inbox with a real hub: what one side puts, the other does, once and in order."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.servers import free_port
from harness.admin import HUB, admin_of
from harness.restarting import RestartingHub
from harness.running_hub import OPEN, RunningHub, StartHub, open_hub
from hubbub.client import (
    AlreadyProcessed,
    Client,
    FileUnusable,
    Inbox,
    Options,
    Outbox,
    OutboxMismatch,
    SubscriptionOptions,
    TopicMessage,
    TopicReplaced,
    connect,
    put_in,
    sync,
)
from hubbub.domain.errors import NotPermitted, NotSubscribed, ProducerFenced, TooLarge
from hubbub.domain.permissions import Grant
from hubbub.domain.rules import Rules

pytestmark = pytest.mark.spec("ONCE-02")

STORED = msgspec.structs.replace(OPEN, store=True, live_history=False)
QUICK = Options(backoff_first=0.01, backoff_longest=0.05, restore=False)
PATIENCE_SECONDS = 20


@pytest.fixture
async def hub(start_server: StartHub) -> RunningHub:
    """Its channels store."""
    return await start_server(open_hub(rules=STORED), session__messagesPerSecond=0)


def to(hub: RunningHub, token: str | None = None, **options: Any) -> Client:
    chosen = msgspec.structs.replace(QUICK, **options)
    return connect(f"ws://{hub.address}", hub="acme", token=token, options=chosen)


async def do_all(inbox: Inbox, topic: str, count: int, **options: Any) -> list[TopicMessage]:
    """Do so many messages: each is written into the table `done` with its position."""
    inbox.connection.execute("CREATE TABLE IF NOT EXISTS done (text)")
    found: list[TopicMessage] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for message in inbox.messages(topic, wait_seconds=1, **options):
            with inbox.processing(message) as transaction:
                transaction.execute("INSERT INTO done VALUES (?)", (message.data,))
            found.append(message)
            if len(found) == count:
                return found
    raise AssertionError


def done(file: Path) -> list[str]:
    connection = sqlite3.connect(file)
    found = [text for (text,) in connection.execute("SELECT text FROM done ORDER BY rowid")]
    connection.close()
    return found


# -- outbox -------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["protobuf", "json"])
async def test_what_is_put_is_done_once_and_in_order(
    hub: RunningHub, tmp_path: Path, encoding: str
) -> None:
    expected = [f"m{number}" for number in range(300)]
    async with (
        to(hub, encoding=encoding) as client,
        Outbox(client, tmp_path / "outbox") as outbox,
        Inbox(client, tmp_path / "app.db") as inbox,
    ):
        await client.topics.subscribe("orders")
        await asyncio.gather(*(outbox.put("orders", text) for text in expected))
        messages = await do_all(inbox, "orders", 300)
        assert [message.serial for message in messages] == list(range(1, 301))
        assert done(tmp_path / "app.db") == expected
        await outbox.drained()
        receipt = await outbox.put("orders", "last", confirm=True)
        assert (receipt.serial, receipt.duplicate) == (301, False)


async def test_an_outbox_sends_what_an_earlier_one_left(hub: RunningHub, tmp_path: Path) -> None:
    away = Options(start_offline=True, backoff_longest=0.05)
    async with (
        connect("ws://127.0.0.1:9", hub="acme", options=away) as client,
        Outbox(client, tmp_path / "outbox") as outbox,
    ):
        for text in "abc":
            await outbox.put("orders", text)
    async with to(hub) as client, Outbox(client, tmp_path / "outbox") as outbox:
        await outbox.drained()
        page = await client.history("orders")
        assert [message.data for message in page.messages] == ["a", "b", "c"]


async def test_an_outbox_goes_on_over_restarts_of_the_hub(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"session__messagesPerSecond": 0, "listener__port": free_port()}
    async with RestartingHub(tmp_path, open_hub(rules=STORED), **settings) as life:
        hub = await life.restart()
        async with to(hub) as client, Outbox(client, tmp_path / "outbox") as outbox:
            for number in range(300):
                await outbox.put("orders", str(number))
                if number in (100, 200):
                    hub = await life.restart()
            async with asyncio.timeout(PATIENCE_SECONDS):
                await outbox.drained()
        async with to(hub) as client:
            found = [message.data async for message in client.read_history("orders")]
        assert found == [str(number) for number in range(300)]


async def test_a_refused_put_does_not_hold_up_those_behind_it(
    start_server: StartHub, tmp_path: Path
) -> None:
    hub = await start_server(
        open_hub(rules=STORED), session__messagesPerSecond=0, connection__ws__maxMessageBytes=1024
    )
    async with to(hub) as client, Outbox(client, tmp_path / "outbox") as outbox:
        big = asyncio.create_task(outbox.put("orders", "x" * 2000, confirm=True))
        for number in range(20):
            await outbox.put("orders", "y" * 2000 if number % 5 == 0 else str(number))
        with pytest.raises(TooLarge):
            await big
        await outbox.drained()
        page = await client.history("orders")
        assert [message.data for message in page.messages] == [
            str(number) for number in range(20) if number % 5
        ]
        assert [each.code for each in await outbox.refused()] == ["too_large"] * 4


async def test_puts_without_permission_are_refused_and_can_be_put_again(
    start_server: StartHub, tmp_path: Path
) -> None:
    closed = Rules(store=True)
    hub = await start_server(open_hub(rules=closed), session__messagesPerSecond=0)
    token = hub.token("ann")
    async with to(hub, token) as client, Outbox(client, tmp_path / "outbox") as outbox:
        with pytest.raises(NotPermitted):
            await outbox.put("orders", "confirmed", confirm=True)
        for text in "abc":
            await outbox.put("orders", text)
        await outbox.drained()
        assert [each.payload for each in await outbox.refused()] == [b"a", b"b", b"c"]
    allowed = hub.token("ann", grants=(Grant("orders", True, True),))
    async with to(hub, allowed) as client, Outbox(client, tmp_path / "outbox") as outbox:
        for refusal in await outbox.refused():
            await outbox.put_again(refusal)
        receipt = await outbox.put("orders", "d", confirm=True)
        assert receipt.serial == 4
        assert await outbox.refused() == []


async def test_a_second_holder_of_the_producer_takes_over_and_the_first_is_told(
    hub: RunningHub, tmp_path: Path
) -> None:
    """Two copies of one file: what the lock on the file cannot see."""
    async with to(hub) as client, Outbox(client, tmp_path / "outbox") as first:
        await first.put("orders", "a", confirm=True)
        await first.drained()
        shutil.copy(tmp_path / "outbox", tmp_path / "copy")
        shutil.copy(tmp_path / "outbox-wal", tmp_path / "copy-wal")
        async with Outbox(client, tmp_path / "copy") as second:
            await second.put("orders", "b", confirm=True)
            with pytest.raises(ProducerFenced):
                await first.put("orders", "c", confirm=True)
            with pytest.raises(ProducerFenced):
                await first.put("orders", "d")
        page = await client.history("orders")
        assert [message.data for message in page.messages] == ["a", "b"]


async def test_an_outbox_keeps_the_pace_that_the_hub_allows(
    start_server: StartHub, tmp_path: Path
) -> None:
    hub = await start_server(
        open_hub(rules=STORED), session__messagesPerSecond=200, session__messageBurst=50
    )
    async with to(hub) as client, Outbox(client, tmp_path / "outbox") as outbox:
        await asyncio.gather(*(outbox.put("orders", str(number)) for number in range(300)))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await outbox.drained()
        assert await outbox.refused() == []
    async with to(hub) as client:
        found = [message.data async for message in client.read_history("orders")]
    assert found == [str(number) for number in range(300)]


async def test_many_topics_at_once(hub: RunningHub, tmp_path: Path) -> None:
    topics = [f"t{number}" for number in range(150)]
    async with to(hub) as client, Outbox(client, tmp_path / "outbox") as outbox:
        receipts = await asyncio.gather(*(outbox.put(each, "x", confirm=True) for each in topics))
    assert [receipt.serial for receipt in receipts] == [1] * 150


async def test_a_session_that_becomes_someone_else_ends_the_outbox(
    hub: RunningHub, tmp_path: Path
) -> None:
    async with to(hub) as client, Outbox(client, tmp_path / "outbox") as outbox:
        await outbox.put("orders", "a", confirm=True)
        await client.authenticate(token=hub.token("ann"))
        with pytest.raises(OutboxMismatch, match="ann"):
            await outbox.put("orders", "b", confirm=True)
        page = await client.history("orders")
        assert [message.data for message in page.messages] == ["a"]


async def test_a_file_that_is_no_database_is_named(hub: RunningHub, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello" * 100)
    async with to(hub) as client:
        for file in (tmp_path / "text", tmp_path / "nowhere" / "outbox"):
            with pytest.raises(FileUnusable, match=file.name):
                await Outbox(client, file).open()
            with pytest.raises(FileUnusable, match=file.name):
                Inbox(client, file).open()


async def test_business_data_and_message_are_committed_together(
    hub: RunningHub, tmp_path: Path
) -> None:
    own = sqlite3.connect(tmp_path / "app.db")
    async with to(hub) as client, Outbox(client, tmp_path / "app.db") as outbox:
        await client.topics.subscribe("orders")
        own.execute("CREATE TABLE orders (item)")
        for item in range(3):
            with own:
                own.execute("INSERT INTO orders VALUES (?)", (item,))
                outbox.put_in(own, "orders", {"item": item})
        own.execute("INSERT INTO orders VALUES ('never')")
        outbox.put_in(own, "orders", {"item": "never"})
        own.rollback()
        found = await client.topics.get("orders", limit=10, wait_seconds=5)
        while len(found) < 3:
            found = await client.topics.get("orders", limit=10, wait_seconds=5)
        assert [message.data for message in found] == [{"item": 0}, {"item": 1}, {"item": 2}]
        await outbox.drained()
    assert own.execute("SELECT count(*) FROM orders").fetchone() == (3,)
    own.close()


async def test_an_outbox_goes_on_with_a_hub_that_was_made_anew(
    hub: RunningHub, tmp_path: Path
) -> None:
    async with to(hub) as client, Outbox(client, tmp_path / "outbox") as outbox:
        for text in "abc":
            await outbox.put("orders", text, confirm=True)
    await make_anew(hub)
    async with to(hub) as client, Outbox(client, tmp_path / "outbox") as outbox:
        receipt = await outbox.put("orders", "d", confirm=True)
        assert (receipt.serial, receipt.duplicate) == (1, False)


async def make_anew(hub: RunningHub) -> None:
    """Delete the hub with all its topics, and make it again."""
    admin = admin_of(hub)
    assert (await admin("DELETE", HUB)).status == 204
    assert (await admin("POST", "/v1/admin/hubs", {"hub": "acme"})).status == 201
    rules = {"store": True, "public": True, "clientPublish": True, "allowAnonymous": True}
    assert (await admin("PUT", f"{HUB}/rules/kept", rules)).status in (200, 201)
    settings = {"defaultRules": "kept", "allowAnonymous": True}
    assert (await admin("PUT", f"{HUB}/settings", settings)).status == 200


# -- inbox --------------------------------------------------------------------------------------


async def test_work_that_fails_is_undone_and_the_message_comes_again(
    hub: RunningHub, tmp_path: Path
) -> None:
    async with to(hub) as client, Inbox(client, tmp_path / "app.db") as inbox:
        inbox.connection.execute("CREATE TABLE done (text)")
        await client.topics.subscribe("orders")
        for text in "ab":
            await client.topics.put("orders", text)
        seen: list[str] = []
        async for message in inbox.messages("orders"):
            seen.append(message.data)
            try:
                with inbox.processing(message) as transaction:
                    transaction.execute("INSERT INTO done VALUES (?)", (message.data,))
                    if len(seen) == 1:
                        raise ZeroDivisionError
            except ZeroDivisionError:
                assert inbox.connection.execute("SELECT count(*) FROM done").fetchone() == (0,)
            if len(seen) == 3:
                break
        assert seen == ["a", "a", "b"]
        assert done(tmp_path / "app.db") == ["a", "b"]


async def test_what_was_done_before_the_hub_knew_is_left_out(
    hub: RunningHub, tmp_path: Path
) -> None:
    file = tmp_path / "app.db"
    async with to(hub) as client:
        await client.topics.subscribe("orders")
        for text in "abcd":
            await client.topics.put("orders", text)
        inbox = Inbox(client, file)
        inbox.open()
        await do_all(inbox, "orders", 3)
        inbox.connection.close()  # a crash: nothing is acknowledged
        (info,) = await client.topics.subscriptions()
        assert info.floor == 0
    async with to(hub) as client:
        async with Inbox(client, file) as inbox:
            (message,) = await do_all(inbox, "orders", 1)
            assert message.data == "d"
        assert done(file) == ["a", "b", "c", "d"]
        (info,) = await client.topics.subscriptions()
        assert info.floor == 4


async def test_two_processes_with_one_inbox_do_a_message_once(
    hub: RunningHub, tmp_path: Path
) -> None:
    file = tmp_path / "app.db"
    async with (
        to(hub) as client,
        Inbox(client, file) as first,
        Inbox(client, file) as second,
    ):
        await client.topics.subscribe("orders")
        await client.topics.put("orders", "a")
        mine = await anext(first.messages("orders"))
        yours = await anext(second.messages("orders"))
        with first.processing(mine):
            pass
        with pytest.raises(AlreadyProcessed, match="another process"), second.processing(yours):
            raise AssertionError("the work is not begun")


async def test_one_connection_does_one_thing_at_a_time(hub: RunningHub, tmp_path: Path) -> None:
    async with to(hub) as client, Inbox(client, tmp_path / "app.db") as inbox:
        for topic in ("a", "b"):
            await client.topics.subscribe(topic)
            await client.topics.put(topic, "x")
        first, second = await anext(inbox.messages("a")), await anext(inbox.messages("b"))
        with (
            inbox.processing(first),
            pytest.raises(ValueError, match="a transaction is open"),
            inbox.processing(second),
        ):
            raise AssertionError


async def test_several_messages_in_one_transaction(hub: RunningHub, tmp_path: Path) -> None:
    async with to(hub) as client, Inbox(client, tmp_path / "app.db") as inbox:
        await client.topics.subscribe("orders")
        for text in "abcd":
            await client.topics.put("orders", text)
        reader = inbox.reader("orders")
        batch = await reader.batch()
        assert [message.data for message in batch] == ["a", "b", "c", "d"]
        with pytest.raises(ValueError, match="is not done"), inbox.processing(batch[1]):
            raise AssertionError("not in order")
        with inbox.processing(*batch[:3]):
            pass
        assert [message.data for message in await reader.batch()] == ["d"]


async def test_messages_can_be_done_and_put_on_in_one_transaction(
    hub: RunningHub, tmp_path: Path
) -> None:
    file = tmp_path / "app.db"
    async with (
        to(hub) as client,
        Inbox(client, file) as inbox,
        Outbox(client, file) as outbox,
    ):
        for topic in ("orders", "bills"):
            await client.topics.subscribe(topic)
        for item in range(5):
            await outbox.put("orders", item)
        count = 0
        async for message in inbox.messages("orders"):
            with inbox.processing(message) as transaction:
                outbox.put_in(transaction, "bills", message.data * 100)
            count += 1
            if count == 5:
                break
        await outbox.drained()
        found = await client.topics.get("bills", limit=10)
        assert [message.data for message in found] == [0, 100, 200, 300, 400]


async def test_the_applications_own_connection_can_be_used(hub: RunningHub, tmp_path: Path) -> None:
    own = sqlite3.connect(tmp_path / "app.db")
    own.execute("CREATE TABLE done (text)")
    async with to(hub) as client, Inbox(client, tmp_path / "app.db") as inbox:
        await client.topics.subscribe("orders")
        await client.topics.put("orders", "a")
        message = await anext(inbox.messages("orders"))
        with inbox.processing(message, connection=own) as transaction:
            assert transaction is own
            own.execute("INSERT INTO done VALUES ('a')")
    assert done(tmp_path / "app.db") == ["a"]
    own.close()


async def test_an_inbox_notices_that_a_topic_was_made_anew(hub: RunningHub, tmp_path: Path) -> None:
    file = tmp_path / "app.db"
    async with to(hub) as client, Inbox(client, file) as inbox:
        await client.topics.subscribe("orders")
        for text in "abc":
            await client.topics.put("orders", text)
        await do_all(inbox, "orders", 3)
    await make_anew(hub)
    async with to(hub) as client, Inbox(client, file) as inbox:
        for text in "de":
            await client.topics.put("orders", text)
        with pytest.raises(TopicReplaced, match="made anew"):
            await do_all(inbox, "orders", 1)
        with pytest.raises(NotSubscribed):  # the attempt left nothing behind
            await client.topics.get("orders")
        await do_all(inbox, "orders", 2, on_replaced="reset")
    assert done(file) == ["a", "b", "c", "d", "e"]


async def test_a_position_can_be_reset_by_hand(hub: RunningHub, tmp_path: Path) -> None:
    file = tmp_path / "app.db"
    async with to(hub) as client, Inbox(client, file) as inbox:
        await client.topics.subscribe("orders")
        for text in "abc":
            await client.topics.put("orders", text)
        await do_all(inbox, "orders", 3)
    await make_anew(hub)
    async with to(hub) as client, Inbox(client, file) as inbox:
        await client.topics.put("orders", "d")
        inbox.reset("orders")
        await do_all(inbox, "orders", 1, start="first")
    assert done(file) == ["a", "b", "c", "d"]


async def test_an_unsubscribed_inbox_goes_on_behind_its_position(
    hub: RunningHub, tmp_path: Path
) -> None:
    """The file knows where it was, also when the hub has forgotten."""
    async with to(hub) as client, Inbox(client, tmp_path / "app.db") as inbox:
        await client.topics.subscribe("orders")
        for text in "ab":
            await client.topics.put("orders", text)
        await do_all(inbox, "orders", 1)
        await client.topics.unsubscribe("orders")
        await client.topics.put("orders", "c")
        async with asyncio.timeout(5):
            await do_all(inbox, "orders", 2)
        assert done(tmp_path / "app.db") == ["a", "b", "c"]


async def test_a_reader_goes_on_behind_a_position_of_another_database(hub: RunningHub) -> None:
    async with to(hub) as client:
        await client.topics.subscribe("orders")
        for text in "abc":
            await client.topics.put("orders", text)
        first = await anext(aiter(client.topics.reader("orders")))
        assert first.data == "a"
        reader = client.topics.reader("orders", skip_up_to=(first.epoch, first.serial))
        found = []
        async for message in reader:
            found.append(message.data)
            reader.done(message)
            if len(found) == 2:
                break
        assert found == ["b", "c"]
        await reader.close()
        (info,) = await client.topics.subscriptions()
        assert info.floor == 3


# -- shared -------------------------------------------------------------------------------------


async def test_consumers_share_a_subscription(hub: RunningHub) -> None:
    async with to(hub) as client:
        options = SubscriptionOptions(shared=True, lease_seconds=30)
        first = client.topics.shared("jobs", "workers", options=options)
        second = client.topics.shared("jobs", "workers", options=options)
        await first.open()
        for number in range(6):
            await client.topics.put("jobs", number)
        mine, yours = await first.get(3), await second.get(3)
        assert sorted(message.data for message in (*mine, *yours)) == list(range(6))
        await first.ack(mine[0], mine[2])
        await first.give_back(mine[1])
        (again,) = await second.get(5)
        assert (again.data, again.redelivered) == (mine[1].data, True)
        await second.ack(again, *yours)
        (info,) = await client.topics.subscriptions()
        assert (info.floor, info.lag) == (6, 0)


async def test_a_consumer_that_leaves_gives_back_what_it_holds(hub: RunningHub) -> None:
    async with to(hub) as client:
        async with client.topics.shared("jobs", "workers") as first:
            await first.open()
            for number in range(3):
                await client.topics.put("jobs", number)
            async for message in first:
                await first.ack(message)
                break
        second = client.topics.shared("jobs", "workers")
        assert len(await second.get(5)) == 2


async def test_readers_go_on_over_restarts_of_the_hub(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"session__messagesPerSecond": 0, "listener__port": free_port()}
    async with RestartingHub(tmp_path, open_hub(rules=STORED), **settings) as life:
        hub = await life.restart()
        file = tmp_path / "app.db"
        async with to(hub) as client, Inbox(client, file) as inbox:
            shared = client.topics.shared("orders", "workers")
            await shared.open()
            reader = aiter(inbox.messages("orders"))
            first = asyncio.ensure_future(anext(reader))
            while len(await client.topics.subscriptions()) < 2:
                await asyncio.sleep(0.01)
            for text in "ab":
                await client.topics.put("orders", text)
                message = await asyncio.wait_for(first, PATIENCE_SECONDS)
                with inbox.processing(message):
                    pass
                mine = await asyncio.wait_for(anext(shared), PATIENCE_SECONDS)
                assert (message.data, mine.data) == (text, text)
                await shared.ack(mine)
                first = asyncio.ensure_future(anext(reader))
                await life.restart()
            first.cancel()


# -- without asyncio ----------------------------------------------------------------------------


async def test_the_same_without_asyncio(hub: RunningHub, tmp_path: Path) -> None:
    def work() -> list[str]:
        found: list[str] = []
        with (
            sync.connect(f"ws://{hub.address}", hub="acme") as client,
            sync.Outbox(client, tmp_path / "outbox") as outbox,
            sync.Inbox(client, tmp_path / "app.db") as inbox,
        ):
            client.topics.subscribe("orders")
            outbox.put("orders", "a")
            assert outbox.put("orders", "b", confirm=True).serial == 2
            assert client.topics.put("orders", "c").serial == 3
            outbox.drained()
            assert outbox.waiting() == 0
            inbox.connection.execute("CREATE TABLE done (text)")
            for message in inbox.messages("orders"):
                with inbox.processing(message) as transaction:
                    transaction.execute("INSERT INTO done VALUES (?)", (message.data,))
                found.append(message.data)
                if len(found) == 3:
                    break
            with client.topics.shared("orders", "workers", start="first") as shared:
                message = next(iter(shared))
                shared.ack(message)
                found.append(message.data)
            inbox.close()
            assert client.topics.get_each() == {"orders": None}
            client.topics.unsubscribe("orders")
        return found

    assert await asyncio.to_thread(work) == ["a", "b", "c", "a"]
    assert done(tmp_path / "app.db") == ["a", "b", "c"]
    assert not [each for each in threading.enumerate() if each.name == "hubbub-client"]


async def test_other_processes_may_put_into_the_file(hub: RunningHub, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "app.db")
    with other:
        put_in(other, "orders", "before")
    async with to(hub) as client, Outbox(client, tmp_path / "app.db") as outbox:
        await outbox.drained()
        with other:
            put_in(other, "orders", "after")
        await outbox.drained()
        page = await client.history("orders")
        assert [message.data for message in page.messages] == ["before", "after"]
    other.close()
