"""The events of a generated day, column by column: one maker for each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.pipeline_words import texts
from hubbub.domain import journal
from hubbub.journal.parquet import SCHEMA

HUBS = ("shop", "fleet", "news", "lab")
NODES = ("node-a", "node-b")
TECHNOLOGIES = ("websocket", "sse", "http", "zeromq")
CHANNELS = 2_000
USERS = 20_000
PRODUCERS = 400
SUBSCRIPTIONS = 60
HOUR = 3_600_000_000

Integers = npt.NDArray[np.int64]
Columns = Mapping[str, Any]
Random = np.random.Generator


@dataclass(slots=True)
class World:
    """What the events of all hours share; the counters go on from hour to hour."""

    channel_hub: Integers
    channel_share: npt.NDArray[np.float64]
    channel_names: pa.Array
    serials: Integers
    sequences: Integers
    texts: pa.Array
    session_hub: Integers
    session_user: Integers
    session_node: Integers
    opened: Integers
    closed: Integers
    subscribed_by: Integers
    subscribed_to: Integers
    started: Integers
    ended: Integers
    next_message: int = 1

    @classmethod
    def make(
        cls,
        seed: int,
        sessions: int,
        subscriptions: int,
        start: int,
        curve: npt.NDArray[np.float64],
    ) -> World:
        random = np.random.default_rng(seed)
        ranks = np.arange(1, CHANNELS + 1)
        share = 1 / ranks**1.05
        hub = random.choice(len(HUBS), CHANNELS, p=[0.5, 0.25, 0.15, 0.1])
        hour = random.choice(24, sessions, p=curve / curve.sum())
        opened = start + hour * HOUR + random.integers(0, HOUR, sessions)
        closed = opened + (random.lognormal(5.5, 1.4, sessions) * 1e6).astype(np.int64)
        by = random.integers(0, max(sessions, 1), subscriptions if sessions else 0)
        begun = opened[by] + random.integers(0, 5_000_000, len(by))
        return cls(
            channel_hub=hub,
            channel_share=share / share.sum(),
            channel_names=pa.array([f"{_SPACES[rank % 5]}:{rank:04d}" for rank in ranks]),
            serials=np.zeros(CHANNELS, np.int64),
            sequences=np.zeros(PRODUCERS, np.int64),
            texts=pa.array(texts(random, 4096)),
            session_hub=random.choice(len(HUBS), sessions, p=[0.5, 0.25, 0.15, 0.1]),
            session_user=(USERS * random.power(0.5, sessions)).astype(np.int64),
            session_node=random.integers(0, len(NODES), sessions),
            opened=opened,
            closed=closed,
            subscribed_by=by,
            subscribed_to=random.choice(CHANNELS, len(by), p=share / share.sum()),
            started=begun,
            ended=np.maximum(begun, closed[by] - random.integers(0, 1_000_000, len(by))),
        )

    def channels(self, random: Random, count: int) -> Integers:
        return random.choice(CHANNELS, count, p=self.channel_share)


_SPACES = ("orders", "chat", "sensors", "news", "jobs")


def published(world: World, random: Random, at: Integers) -> pa.Table:
    count = len(at)
    channel = world.channels(random, count)
    first = world.next_message
    world.next_message += count
    numbers = np.arange(first, first + count)
    session = random.integers(0, max(len(world.opened), 1), count)
    ids = _numbered("m-", numbers)
    answers, conversations = _threads(random, channel, numbers)
    producer, sequence = _sequences(world, random, count)
    stored = random.random(count) < 0.6
    payload = pc.binary_join_element_wise(
        pa.scalar('{"text":"'),
        world.texts.take(pa.array(random.integers(0, len(world.texts), count))),
        pa.scalar('","n":'),
        pa.array(numbers).cast(pa.string()),
        pa.scalar("}"),
        "",
    )
    return _table(
        journal.PUBLISHED,
        at,
        hub=_pick(HUBS, world.channel_hub[channel]),
        node=_pick(NODES, channel % len(NODES)),
        channel=world.channel_names.take(pa.array(channel)),
        session=_numbered("s-", session),
        user=_numbered("user-", world.session_user[session]),
        technology=_pick(TECHNOLOGIES, random.choice(4, count, p=[0.7, 0.05, 0.2, 0.05])),
        message_id=ids,
        epoch=pa.repeat("e1", count),
        serial=_counted(world.serials, channel),
        stored=pa.array(stored),
        event=_pick(("", "created", "changed", "said"), random.integers(0, 4, count)),
        content_type=pa.repeat("application/json", count),
        size=pc.binary_length(payload).cast(pa.int64()),
        payload=payload.cast(pa.binary()),
        published_at=pa.array(at),
        producer=producer,
        sequence=sequence,
        conversation_id=conversations,
        refers_to=answers,
    )


def delivered(world: World, random: Random, at: Integers) -> pa.Table:
    count = len(at)
    channel = world.channels(random, count)
    deliveries = 1 + (300 * random.random(count) ** 6 * (channel < 200)).astype(np.int64)
    middle = random.lognormal(6.5, 0.9, count).clip(40, 5e7)
    bucket = np.maximum(0, np.floor(8 * np.log2(middle))).astype(np.int64)
    spread = np.minimum(deliveries, 3)
    ends = np.concatenate(([0], np.cumsum(spread)))
    event = np.repeat(np.arange(count), spread)
    step = np.arange(ends[-1]) - ends[:-1][event]
    keys = bucket[event] + step
    share = deliveries[event] // spread[event]
    share += np.where(step == 0, deliveries[event] % spread[event], 0)
    inside = 2 ** ((keys + 0.5) / 8)
    total = np.add.reduceat(share * inside, ends[:-1]) if count else np.zeros(0)
    squares = np.add.reduceat(share * inside**2, ends[:-1]) if count else np.zeros(0)
    buckets = pa.MapArray.from_arrays(
        pa.array(ends, pa.int32()), pa.array(keys, pa.int32()), pa.array(share, pa.int64())
    )
    serial = np.maximum(1, world.serials[channel])
    return _table(
        journal.DELIVERED,
        at,
        hub=_pick(HUBS, world.channel_hub[channel]),
        node=_pick(NODES, channel % len(NODES)),
        channel=world.channel_names.take(pa.array(channel)),
        technology=_pick(TECHNOLOGIES, random.choice(4, count, p=[0.8, 0.15, 0, 0.05])),
        epoch=pa.repeat("e1", count),
        serial=pa.array(serial),
        first_serial=pa.array(serial),
        size=pa.array(deliveries * 150),
        messages=pa.repeat(1, count),
        count=pa.array(deliveries),
        latency_min=pa.array((2 ** ((bucket + 0.5) / 8)).astype(np.int64)),
        latency_max=pa.array((2 ** ((bucket + spread - 0.5) / 8)).astype(np.int64)),
        latency_sum=pa.array(total.astype(np.int64)),
        latency_squares=pa.array(squares),
        latency_buckets=buckets,
    )


def sessions(world: World, start: int, end: int) -> list[pa.Table]:
    """Those that open in a span of time, and those that close in it."""

    def made(kind: str, at: Integers, which: Integers, **more: Any) -> pa.Table:
        return _table(
            kind,
            at[which],
            hub=_pick(HUBS, world.session_hub[which]),
            node=_pick(NODES, world.session_node[which]),
            session=_numbered("s-", which),
            user=_numbered("user-", world.session_user[which]),
            technology=_pick(TECHNOLOGIES, which % 2),
            **more,
        )

    opening, closing = (_within(times, start, end) for times in (world.opened, world.closed))
    return [
        made(journal.SESSION_OPENED, world.opened, opening),
        made(
            journal.SESSION_CLOSED,
            world.closed,
            closing,
            duration=pa.array(world.closed[closing] - world.opened[closing]),
            reason=_pick(("left", "timeout", "going_away"), closing % 3),
        ),
    ]


def subscriptions(world: World, start: int, end: int) -> list[pa.Table]:
    def made(kind: str, at: Integers, which: Integers, **more: Any) -> pa.Table:
        session = world.subscribed_by[which]
        return _table(
            kind,
            at[which],
            hub=_pick(HUBS, world.session_hub[session]),
            node=_pick(NODES, world.session_node[session]),
            channel=world.channel_names.take(pa.array(world.subscribed_to[which])),
            session=_numbered("s-", session),
            user=_numbered("user-", world.session_user[session]),
            **more,
        )

    starting, ending = (_within(times, start, end) for times in (world.started, world.ended))
    return [
        made(journal.SUBSCRIBED, world.started, starting),
        made(
            journal.UNSUBSCRIBED,
            world.ended,
            ending,
            duration=pa.array(world.ended[ending] - world.started[ending]),
        ),
    ]


def _receipts(kind: str) -> Maker:
    def make(world: World, random: Random, at: Integers) -> pa.Table:
        channel = random.integers(0, SUBSCRIPTIONS, len(at))
        serial = np.maximum(1, world.serials[channel] - random.integers(0, 50, len(at)))
        return _table(
            kind,
            at,
            hub=_pick(HUBS, world.channel_hub[channel]),
            node=_pick(NODES, channel % len(NODES)),
            channel=world.channel_names.take(pa.array(channel)),
            user=_numbered("user-", channel),
            epoch=pa.repeat("e1", len(at)),
            serial=pa.array(serial),
            first_serial=pa.array(serial),
            count=pa.repeat(1, len(at)),
            subscription=_numbered("sub-", channel),
            delivery=pa.array(1 + (random.random(len(at)) < 0.02)),
        )

    return make


def _attempts(kind: str) -> Maker:
    def make(world: World, random: Random, at: Integers) -> pa.Table:
        channel = world.channels(random, len(at))
        known = max(1, world.next_message - 1)
        peer = random.integers(0, 25, len(at))
        failed = random.random(len(at)) < 0.03
        webhook = kind == journal.WEBHOOK_ATTEMPT
        own = _numbered("https://peer.example/", peer) if webhook else _pick(_ADAPTERS, peer % 3)
        return _table(
            kind,
            at,
            hub=_pick(HUBS, world.channel_hub[channel]),
            node=_pick(NODES, channel % len(NODES)),
            channel=world.channel_names.take(pa.array(channel)),
            technology=pa.repeat("webhook", len(at)) if webhook else own,
            message_id=_numbered("m-", random.integers(1, known + 1, len(at))),
            subscription=_numbered("hook-", peer),
            attempt=pa.array(1 + (random.random(len(at)) < 0.05)),
            outcome=_pick(("ok", "timeout"), failed.astype(np.int64)),
            status=pa.array(np.where(failed, 504, 200)),
            duration=pa.array(random.lognormal(10, 0.8, len(at)).astype(np.int64)),
            peer=own if webhook else pa.nulls(len(at), pa.string()),
            adapter=pa.nulls(len(at), pa.string()) if webhook else own,
            policy=pa.nulls(len(at), pa.string()) if webhook else _pick(_POLICIES, peer % 2),
        )

    return make


def _drops(kind: str) -> Maker:
    def make(world: World, random: Random, at: Integers) -> pa.Table:
        channel = world.channels(random, len(at))
        session = random.integers(0, max(len(world.opened), 1), len(at))
        lost = kind == journal.TELEMETRY_LOST
        return _table(
            kind,
            at,
            hub=_pick(HUBS, world.channel_hub[channel]),
            node=_pick(NODES, channel % len(NODES)),
            channel=None if lost else world.channel_names.take(pa.array(channel)),
            session=None if lost else _numbered("s-", session),
            count=pa.array(random.integers(1, 20, len(at))),
            reason=pa.repeat("disk" if lost else "slow_consumer", len(at)),
        )

    return make


Maker = Callable[[World, Random, Integers], pa.Table]
_ADAPTERS = ("smtp", "webpush", "sms")
_POLICIES = ("first", "all")
MAKERS: Mapping[str, Maker] = {
    journal.PUBLISHED: published,
    journal.DELIVERED: delivered,
    journal.RECEIVED: _receipts(journal.RECEIVED),
    journal.ACKNOWLEDGED: _receipts(journal.ACKNOWLEDGED),
    journal.EXPIRED: _receipts(journal.EXPIRED),
    journal.DEAD_LETTERED: _receipts(journal.DEAD_LETTERED),
    journal.WEBHOOK_ATTEMPT: _attempts(journal.WEBHOOK_ATTEMPT),
    journal.ADAPTER_ATTEMPT: _attempts(journal.ADAPTER_ATTEMPT),
    journal.DROPPED: _drops(journal.DROPPED),
    journal.TELEMETRY_LOST: _drops(journal.TELEMETRY_LOST),
}


def complete(table: pa.Table) -> pa.Table:
    """All columns of the journal, in their order."""
    there = set(table.column_names)
    return pa.Table.from_arrays(
        [
            table[field.name].cast(field.type)
            if field.name in there
            else pa.nulls(len(table), field.type)
            for field in SCHEMA
        ],
        schema=SCHEMA,
    )


def _table(kind: str, at: Integers, **columns: Any) -> pa.Table:
    given = {name: values for name, values in columns.items() if values is not None}
    return pa.table(
        {
            "schema_version": pa.repeat(journal.SCHEMA_VERSION, len(at)),
            "offset": pa.repeat(0, len(at)),  # set when the segment is written
            "kind": pa.repeat(kind, len(at)),
            "at": pa.array(at),
            **given,
        }
    )


def _pick(words: tuple[str, ...], which: Integers) -> pa.Array:
    return pa.array(words).take(pa.array(which))


def _numbered(prefix: str, numbers: Integers) -> pa.Array:
    return pc.binary_join_element_wise(pa.scalar(prefix), pa.array(numbers).cast(pa.string()), "")


def _within(times: Integers, start: int, end: int) -> Integers:
    return np.flatnonzero((times >= start) & (times < end))


def _ranks(groups: Integers) -> tuple[Integers, Integers]:
    """For each entry the how-manieth of its group it is; and an order that puts groups together."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    run = np.arange(len(groups)) - np.repeat(starts, np.diff(np.append(starts, len(groups))))
    ranks = np.empty(len(groups), np.int64)
    ranks[order] = run
    return ranks, order


def _counted(counters: Integers, groups: Integers) -> pa.Array:
    """The next number of each entry's counter, which goes on from where it was."""
    if not len(groups):
        return pa.array([], pa.int64())
    ranks, _ = _ranks(groups)
    numbers = counters[groups] + ranks + 1
    counters += np.bincount(groups, minlength=len(counters))
    return pa.array(numbers)


def _threads(random: Random, channel: Integers, numbers: Integers) -> tuple[pa.Array, pa.Array]:
    """Three of ten answer the message before them in their channel; of those, a part says so by a
    conversation's id as well."""
    count = len(numbers)
    if not count:
        return pa.nulls(0, pa.string()), pa.nulls(0, pa.string())
    _, order = _ranks(channel)
    before = np.zeros(count, np.int64)
    before[order[1:]] = np.where(channel[order[1:]] == channel[order[:-1]], numbers[order[:-1]], 0)
    answers = (random.random(count) < 0.3) & (before > 0)
    talks = random.random(count) < 0.2
    conversation = channel * 1000 + random.integers(0, 1000, count)
    return (
        pc.if_else(pa.array(answers), _numbered("m-", before), None),
        pc.if_else(pa.array(talks), _numbered("c-", conversation), None),
    )


def _sequences(world: World, random: Random, count: int) -> tuple[pa.Array, pa.Array]:
    """A fifth comes from numbered producers; one in 50,000 of those is missing or comes twice."""
    numbered = random.random(count) < 0.2
    producer = random.integers(0, PRODUCERS, count)
    sequence = np.zeros(count, np.int64)
    chosen = producer[numbered]
    sequence[numbered] = _counted(world.sequences, chosen).to_numpy() + (
        random.random(len(chosen)) < 2e-5
    )
    return (
        pc.if_else(pa.array(numbered), _numbered("p-", producer), None),
        pc.if_else(pa.array(numbered), pa.array(sequence), None),
    )
