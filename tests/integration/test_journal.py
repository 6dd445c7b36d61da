"""The journal of a running hub: it tells exactly what happened."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from harness.command import hubbub
from harness.journal import QUIET, journal_events, journalled, only
from harness.raw import RawConnection
from harness.running_hub import OPEN, RunningHub, StartHub, open_hub
from harness.topics import HttpTopic, texts, topic_hub
from hubbub.domain.journal import (
    ACKNOWLEDGED,
    DEAD_LETTERED,
    DELIVERED,
    DROPPED,
    NODE_STARTED,
    PUBLISHED,
    RECEIVED,
    SESSION_CLOSED,
    SESSION_OPENED,
    SUBSCRIBED,
    UNSUBSCRIBED,
)
from hubbub.domain.permissions import Level
from hubbub.journal.folder import JournalFolder

pytestmark = pytest.mark.spec("PIPE-01")

STORED = msgspec.structs.replace(OPEN, store=True, live_history=False)
SECRET = msgspec.structs.replace(OPEN, journal="off")
WHOLE = msgspec.structs.replace(OPEN, journal="payload")


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "data" / "journal"


@pytest.fixture
async def hub(start_server: StartHub) -> RunningHub:
    namespaces = {"log": STORED, "secret": SECRET, "whole": WHOLE}
    return await start_server(open_hub(namespaces=namespaces), **QUIET)


async def post(hub: RunningHub, channel: str, *payloads: object, query: str = "") -> None:
    headers = {"Authorization": f"Bearer {hub.token('service', level=Level.SERVICE)}"}
    for payload in payloads:
        path = f"/v1/hubs/acme/channels/{channel}/messages{query}"
        async with hub.http.post(path, json=payload, headers=headers) as answer:
            assert answer.status == 200, await answer.text()


async def stopped(hub: RunningHub) -> None:
    """As `hubbub serve` ends: everything is written."""
    await hub.server.stop()


async def test_a_small_run_over_every_way_in_and_out_is_counted_exactly(
    hub: RunningHub, journal: Path
) -> None:
    sockets = [await hub.socket(token=hub.token("ann")) for _ in range(3)]
    speaker = await hub.socket()
    for socket in sockets:
        await socket.subscribe("news")
    async with await RawConnection.open(hub.address) as stream:
        request = f"GET /v1/hubs/acme/events?channel=news HTTP/1.1\r\nHost: {hub.address}\r\n\r\n"
        stream.send(request.encode())
        await stream.until(b"Subscribe")
        for number in range(10):
            await speaker.publish("news", {"json": number})
        await post(hub, "news", *range(5))
        for number in range(7):
            await speaker.publish("log:a", {"json": number}, store=True)
        for socket in sockets:
            for _ in range(15):
                await socket.find("Publish")
        for _ in range(15):
            await stream.until(b'"channel"')
    await stopped(hub)
    events = journal_events(journal)

    published = [event for event in events if event.kind == PUBLISHED]
    ways = Counter((event.channel, event.technology, event.stored) for event in published)
    assert ways == {
        ("news", "websocket", False): 10,
        ("news", "http", False): 5,
        ("log:a", "websocket", True): 7,
    }
    assert [event.serial for event in published if event.channel == "news"] == [*range(1, 16)]
    assert {event.user for event in published if event.technology == "http"} == {"service"}
    assert {event.node for event in events} == {"local"}
    (start,) = [event for event in events if event.hub != "acme"]
    assert (start.kind, start.hub) == (NODE_STARTED, "")
    assert {event.payload for event in published} == {None}

    delivered = [event for event in events if event.kind == DELIVERED]
    counts: Counter[tuple[str | None, str | None]] = Counter()
    for event in delivered:
        assert event.count
        assert event.latency_buckets
        counts[event.channel, event.technology] += event.count
        assert sum(event.latency_buckets.values()) == event.count
    assert counts == {("news", "websocket"): 45, ("news", "sse"): 15}
    in_order = [event for event in delivered if event.technology == "websocket"]
    assert sum(event.messages or 0 for event in in_order) == 15
    assert (in_order[0].first_serial, in_order[-1].serial) == (1, 15)

    kinds = Counter((event.kind, event.technology) for event in events)
    for kind in (SESSION_OPENED, SESSION_CLOSED):
        assert (kinds[kind, "websocket"], kinds[kind, "sse"]) == (4, 1), kind
    for kind in (SUBSCRIBED, UNSUBSCRIBED):
        assert (kinds[kind, "websocket"], kinds[kind, "sse"]) == (3, 1), kind


async def test_a_rule_decides_what_is_kept_of_messages(hub: RunningHub, journal: Path) -> None:
    socket, speaker = await hub.socket(), await hub.socket()
    await socket.subscribe("secret:a", "whole:a", "plain")
    for channel in ("secret:a", "whole:a", "plain"):
        await speaker.publish(channel, {"json": {"for": channel}})
        await socket.find("Publish")
    await stopped(hub)
    events = journal_events(journal)
    assert "secret:a" not in {event.channel for event in events}
    payloads = {event.channel: event.payload for event in events if event.kind == PUBLISHED}
    assert payloads["plain"] is None
    assert json.loads(payloads["whole:a"] or b"") == {"for": "whole:a"}
    sizes = {event.channel: event.size for event in events if event.kind == PUBLISHED}
    assert sizes["plain"] == len(json.dumps({"for": "plain"}))


async def test_a_changed_rule_takes_effect_at_once(hub: RunningHub, journal: Path) -> None:
    socket, speaker = await hub.socket(), await hub.socket()
    await socket.subscribe("plain")
    for number, rule in enumerate(("metadata", "off", "payload", "metadata")):
        rules = msgspec.structs.replace(OPEN, journal=rule)
        await hub.server.directory.put("acme", "rules", "default", rules)
        await speaker.publish("plain", {"json": number})
        await socket.find("Publish")
    await stopped(hub)
    kept = [(event.serial, event.payload) for event in journal_events(journal, PUBLISHED)]
    assert kept == [(1, None), (3, b"2"), (4, None)]
    delivered = journal_events(journal, DELIVERED)
    assert sum(event.count or 0 for event in delivered) == 3


async def test_sessions_say_how_long_they_were_there_and_why_they_ended(
    start_server: StartHub, journal: Path
) -> None:
    hub = await start_server(
        open_hub(), session__messageBurst=5, session__messagesPerSecond=1, **QUIET
    )
    leaves = await hub.socket(token=hub.token("leaves"))
    await leaves.connection.close()
    asks = await hub.socket(token=hub.token("asks"))
    await asks.send("Close")
    await asks.closed()
    floods = await hub.socket(token=hub.token("floods"))
    for number in range(30):
        await floods.send("Publish", publishes=[{"channel": "a", "payload": {"json": number}}])
    await floods.closed()
    vanishes = await hub.socket(token=hub.token("vanishes"))
    vanishes.connection.transport.abort()
    stays = await hub.socket(token=hub.token("stays"))
    await journalled(journal, lambda found: sum(e.kind == SESSION_CLOSED for e in found) == 4)
    await stopped(hub)
    assert (await stays.closed())[0] == 1001
    ends = {event.user: event for event in journal_events(journal, SESSION_CLOSED)}
    assert {user: event.reason for user, event in ends.items()} == {
        "leaves": "closed",
        "asks": "closed",
        "floods": "rate_limited",
        "vanishes": "lost",
        "stays": "going_away",
    }
    begins = {event.user: event for event in journal_events(journal, SESSION_OPENED)}
    for user, event in ends.items():
        assert event.session == begins[user].session
        assert event.duration is not None
        assert abs(event.at - begins[user].at - event.duration) < 50_000


async def test_a_restored_session_is_the_same_one_again(hub: RunningHub, journal: Path) -> None:
    first = await hub.socket(token=hub.token("ann"))
    key = (await first.find("SessionRestore"))["restoreKey"]
    await first.subscribe("news")
    first.connection.transport.abort()
    await journalled(journal, lambda found: any(e.kind == SESSION_CLOSED for e in found))
    second = await hub.socket()
    await second.send("SessionRestore", restoreKey=key, reqID=1)
    restored = await second.find("SessionRestored")
    await stopped(hub)
    session = restored["sessionID"]
    lives = [
        (event.kind, event.reason)
        for event in journal_events(journal, SESSION_OPENED, SESSION_CLOSED)
        if event.session == session
    ]
    assert lives == [
        (SESSION_OPENED, None),
        (SESSION_CLOSED, "lost"),
        (SESSION_OPENED, "restored"),
        (SESSION_CLOSED, "going_away"),
    ]
    opened = Counter(event.session for event in journal_events(journal, SESSION_OPENED))
    closed = Counter(event.session for event in journal_events(journal, SESSION_CLOSED))
    assert opened == closed, "every session that began has ended"


async def test_a_session_taken_over_while_it_lives_goes_on(hub: RunningHub, journal: Path) -> None:
    first = await hub.socket(token=hub.token("ann"))
    key = (await first.find("SessionRestore"))["restoreKey"]
    second = await hub.socket()
    await second.send("SessionRestore", restoreKey=key, reqID=1)
    session = (await second.find("SessionRestored"))["sessionID"]
    await first.closed()
    await stopped(hub)
    lives = [
        event.kind
        for event in journal_events(journal, SESSION_OPENED, SESSION_CLOSED)
        if event.session == session
    ]
    assert lives == [SESSION_OPENED, SESSION_CLOSED]


async def test_what_was_missed_and_is_sent_later_counts_without_a_latency(
    hub: RunningHub, journal: Path
) -> None:
    socket = await hub.socket()
    for number in range(5):
        await socket.publish("log:a", {"json": number}, store=True)
    await socket.subscribe("log:a", serial="2")
    for _ in range(3):
        await socket.find("Publish")
    await stopped(hub)
    (replay,) = journal_events(journal, DELIVERED)
    assert only(replay, "channel", "first_serial", "serial", "messages", "count", "reason") == {
        "channel": "log:a",
        "first_serial": 3,
        "serial": 5,
        "messages": 3,
        "count": 3,
        "reason": "replay",
    }
    assert replay.latency_sum is None


async def test_a_slow_consumer_shows_as_a_drop(start_server: StartHub, journal: Path) -> None:
    hub = await start_server(
        open_hub(),
        connection__ws__maxMessageBytes=65536,
        connection__ws__sendBufferBytes=262144,
        **QUIET,
    )
    slow = await hub.socket(token=hub.token("slow"))
    await slow.subscribe("news")
    slow.connection.transport.pause_reading()
    counters = hub.server.node.counters["acme"]
    async with asyncio.timeout(20):
        while not counters.slow_consumers:
            await post(hub, "news", "x" * 50_000)
    await stopped(hub)
    (drop,) = journal_events(journal, DROPPED)
    assert only(drop, "user", "reason") == {"user": "slow", "reason": "slow_consumer"}
    assert drop.size is not None
    assert drop.size > 262144
    reasons = {event.user: event.reason for event in journal_events(journal, SESSION_CLOSED)}
    assert reasons["slow"] == "slow_consumer"


async def test_a_reader_gets_all_that_happened_until_it_asked(
    hub: RunningHub, journal: Path
) -> None:
    socket, speaker = await hub.socket(), await hub.socket()
    await socket.subscribe("news")
    for number in range(20):
        await speaker.publish("news", {"json": number})
        await socket.find("Publish")
    folder = JournalFolder(journal)
    await journalled(journal, lambda found: found)
    requests = folder.request_rotation()
    assert len(requests) == 1
    async with asyncio.timeout(5):
        while requests[0].exists():
            await asyncio.sleep(0.01)
    assert folder.live_segments() == []
    kinds = Counter(event.kind for event in journal_events(journal))
    assert kinds[PUBLISHED] == 20
    assert sum(event.count or 0 for event in journal_events(journal, DELIVERED)) == 20


async def test_a_hub_without_a_journal_writes_none(start_server: StartHub, journal: Path) -> None:
    hub = await start_server(open_hub(rules=STORED), journal__enabled=False)
    socket = await hub.socket()
    await socket.subscribe("news")
    assert (await socket.publish("news", {"json": 1}, store=True))["success"]
    await stopped(hub)
    assert not journal.exists()


async def test_what_was_stored_while_there_was_no_journal_comes_when_there_is_one(
    start_server: StartHub, journal: Path
) -> None:
    hub = await start_server(open_hub(rules=STORED), journal__enabled=False)
    socket = await hub.socket()
    for number in range(3):
        await socket.publish("news", {"json": number}, store=True)
    await stopped(hub)
    hub = await start_server(open_hub(rules=STORED), **QUIET)
    found = await journalled(journal, lambda found: sum(e.kind == PUBLISHED for e in found) == 3)
    assert [event.serial for event in found if event.kind == PUBLISHED] == [1, 2, 3]
    await stopped(hub)
    hub = await start_server(open_hub(rules=STORED), **QUIET)
    assert await hub.server.store.read_exported("acme", "news") == 3
    assert await hub.server.store.read_unexported(None, 10) == []


async def test_metrics_tell_how_the_journal_is(hub: RunningHub, journal: Path) -> None:
    socket = await hub.socket()
    await socket.publish("log:a", {"json": 1}, store=True)
    async with asyncio.timeout(10):
        while True:
            lines = (await hub.metrics()).splitlines()
            figures = dict(line.rsplit(" ", 1) for line in lines if "journal" in line)
            if float(figures["hubbub_journal_events_total"]) >= 2:
                break
            await asyncio.sleep(0.05)
    assert float(figures["hubbub_journal_bytes_total"]) > 100
    assert float(figures["hubbub_journal_lost_total"]) == 0
    assert float(figures["hubbub_journal_open_segments"]) == 1
    assert float(figures["hubbub_journal_channels_behind"]) == 0


async def test_durable_subscriptions_tell_what_they_handed_out_and_what_is_done(
    start_server: StartHub, journal: Path
) -> None:
    hub = await start_server(topic_hub(), **QUIET)
    topic = HttpTopic(hub, "orders", hub.token("ann"))
    await topic.subscribe("mine", maxDeliveries=1, deadLetters="dead", shared=True)
    for number in range(1, 5):
        put = await topic.put(f"{number}", producer="p", sequence=str(number))
        assert put.status == 200, put
    assert texts(await topic.get("mine", limit=3)) == ["1", "2", "3"]
    assert (await topic.ack("mine", serials=["1", "2"])).status == 200
    assert (await topic.ack("mine", serials=["3"], giveBack=True)).status == 200
    assert texts(await topic.get("mine", limit=3)) == ["4"], "the third is given up"
    await journalled(journal, lambda found: any(e.kind == DEAD_LETTERED for e in found))
    await stopped(hub)
    puts = [e for e in journal_events(journal, PUBLISHED) if e.channel == "orders"]
    assert [(e.producer, e.sequence, e.user, e.technology) for e in puts] == [
        ("p", number, "ann", "http") for number in range(1, 5)
    ]
    told = [
        (e.kind, e.first_serial, e.serial, e.count, e.delivery)
        for e in journal_events(journal, RECEIVED, ACKNOWLEDGED, DEAD_LETTERED)
    ]
    assert set(told) == {
        (RECEIVED, 1, 3, 3, 1),
        (ACKNOWLEDGED, 1, 2, 2, None),
        (RECEIVED, 4, 4, 1, 1),
        (DEAD_LETTERED, 3, 3, 1, 1),
    }
    assert len(told) == 4
    for event in journal_events(journal, RECEIVED):
        assert only(event, "channel", "subscription", "user", "technology", "size") == {
            "channel": "orders",
            "subscription": "mine",
            "user": "ann",
            "technology": "http",
            "size": event.count,
        }
        assert event.latency_buckets is not None
        assert sum(event.latency_buckets.values()) == event.count
        assert 0 <= (event.latency_min or 0) <= (event.latency_max or 0) < 60_000_000


async def test_the_command_line_shows_lists_and_seals(hub: RunningHub, journal: Path) -> None:
    pytest.importorskip("pyarrow")
    socket = await hub.socket(token=hub.token("ann"))
    for number in range(3):
        await socket.publish("whole:a", {"json": number})
    await journalled(journal, lambda found: sum(e.kind == PUBLISHED for e in found) == 3)
    where = ("--journal", str(journal))
    shown = await hubbub("journal", "show", "--kind", PUBLISHED, "--limit", "2", *where)
    lines = shown.out.splitlines()
    assert len(lines) == 2
    assert "message.published  acme  whole:a" in lines[-1]
    assert "user=ann" in lines[-1]
    assert "payload=2" in lines[-1]
    assert (await hubbub("journal", "segments", *where)).out.split()[4] == "open"
    sealed = await hubbub("journal", "seal", *where)
    assert sealed.code == 0, sealed
    assert len(sealed.out.splitlines()) == 1
    again = await hubbub("journal", "show", "--channel", "whole:a", "--json", *where)
    events = [json.loads(line) for line in again.out.splitlines()]
    assert [event["serial"] for event in events if event["kind"] == PUBLISHED] == [1, 2, 3]
    wrong = await hubbub("journal", "show", "--kind", "message.lost", *where)
    assert wrong.code == 2
    assert "message.published" in wrong.err
    none = await hubbub("journal", "show", "--journal", str(journal / "none"))
    assert none.code == 1
