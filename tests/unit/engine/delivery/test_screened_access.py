"""Filters and patterns where access ends, where messages are lost, and where a node is killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.engine import Alone, Cluster, EngineNode, FakeConnection, publish, receive
from harness.running_hub import OPEN, open_hub
from hubbub.domain.commands.objects import HChannel
from hubbub.domain.errors import HubbubError
from hubbub.domain.filters.definition import FilterDefinition
from hubbub.domain.notices import (
    ChannelReset,
    FilterSet,
    MessageDelivery,
    RestoreKey,
    SessionRestored,
    Subscribed,
    Unsubscribed,
)
from hubbub.domain.permissions import Grant, Identity
from hubbub.domain.requests import Position, Restore, SetFilter, Subscribe, SubscribeItem
from hubbub.domain.rules import ChannelSettings, Rules
from hubbub.ports.storage.administration import Revocation

pytestmark = [pytest.mark.spec("CMD-06"), pytest.mark.spec("LIVE-19")]

BOSS = Identity("boss", grants=(Grant("*", publish=True, subscribe=True),))
EVE = Identity("eve", token_id="t1", grants=(Grant("team:*", subscribe=True),))
LARGE = {"gt": {"payload": 1}}
BY_NAME_OR_PATTERN = pytest.mark.parametrize("followed", ["room:1", "room:*"])


async def follow(
    node: EngineNode, followed: str, identity: Identity | None = None, **position: Any
) -> FakeConnection:
    """With a filter for what is followed."""
    connection = node.connect() if identity is None else node.connect(identity=identity)
    receive(connection, SetFilter(FilterDefinition("f", followed, condition=LARGE), req_id=1))
    await connection.next(FilterSet)
    receive(connection, Subscribe((SubscribeItem(followed, **position),), req_id=2))
    await connection.until(lambda: any(each.req_id == 2 for each in connection.all(Subscribed)))
    return connection


def heard(connection: FakeConnection) -> list[tuple[bytes, int, int | None]]:
    """Payloads, serials, and what these are said to follow."""
    found = connection.all(MessageDelivery)
    return [(each.message.payload, each.message.serial, each.previous_serial) for each in found]


@BY_NAME_OR_PATTERN
async def test_a_filtered_subscriber_loses_a_channel_that_is_closed_to_it(
    tmp_path: Path, followed: str
) -> None:
    hub = open_hub(namespaces={"room": OPEN}, rules=Rules())
    async with Alone(tmp_path, hubs=[hub]) as alone:
        eve, witness = (
            await follow(alone.node, followed),
            await follow(alone.node, "room:*", BOSS),
        )
        speaker = alone.node.connect(identity=BOSS)
        publish(speaker, "room:1", b"1", b"2")
        await eve.delivered("room:1", 1)
        rules = {**hub.rules, "closed": Rules()}
        closed = {"room:1": ChannelSettings("closed")}
        await alone.change(msgspec.structs.replace(hub, rules=rules, channels=closed))
        lost = await eve.next(Unsubscribed)
        assert [(each.channel, each.error.code) for each in lost.failures] == [
            ("room:1", "not_permitted")
        ]
        publish(speaker, "room:1", b"3")
        await witness.delivered("room:1", 2)
        assert heard(eve) == [(b"2", 2, 0)]
        (group,) = alone.node.node.hub("acme").feeds["room:1"].filtered.values()
        assert eve not in group.connections


@pytest.mark.parametrize("followed", ["team:1", "team:*"])
async def test_a_revoked_token_ends_filtered_subscriptions(tmp_path: Path, followed: str) -> None:
    async with Alone(tmp_path, hubs=[open_hub(rules=Rules())]) as alone:
        eve, witness = (
            await follow(alone.node, followed, EVE),
            await follow(alone.node, "team:*", BOSS),
        )
        until = int(alone.clock.now() * 1000) + 60_000
        await alone.node.revocations.add(Revocation("acme", "token", "t1", 0, until))
        alone.node.node.hub_changed("acme")
        publish(alone.node.connect(identity=BOSS), "team:1", b"2")
        await witness.delivered("team:1", 1)
        assert eve.error is not None
        assert eve.error.code == "invalid_token"
        assert not heard(eve)


@pytest.mark.spec("CMD-02")
@pytest.mark.parametrize("owner", ["east", "west"])
async def test_who_is_removed_on_another_node_loses_what_a_pattern_gave(
    tmp_path: Path, owner: str
) -> None:
    """And a channel that is made inactive goes on for its participants once it is active again."""
    hub = msgspec.structs.replace(
        open_hub(), settings=msgspec.structs.replace(open_hub().settings, commands=True)
    )
    async with Cluster(tmp_path, hubs=[hub]) as cluster:
        channel = cluster.channel_of(owner, "room:")
        west, east = cluster.nodes["west"], cluster.nodes["east"]

        async def let(*users: str, active: bool = True) -> None:
            jids = tuple(f"{user}@acme" for user in users)
            record = HChannel(channel, "ann@acme", jids, active)
            await cluster.store.save_channel_record("acme", record, 10, 10)
            await west.directory.binding_changed("acme", channel)

        await let("ann", "eve")
        ann, eve = [await follow(east, "room:*", Identity(user_id=user)) for user in ("ann", "eve")]
        speaker = west.connect(identity=Identity(user_id="ann"))
        publish(speaker, channel, b"1", b"2")
        await eve.delivered(channel, 1)
        await ann.delivered(channel, 1)
        await let("ann", "eve", active=False)
        await let("ann", "eve")
        publish(speaker, channel, b"3")
        await eve.delivered(channel, 2)
        await let("ann")
        await eve.until(
            lambda: any(f.channel == channel for n in eve.all(Unsubscribed) for f in n.failures)
        )
        publish(speaker, channel, b"4")
        await ann.delivered(channel, 3)
        assert [payload for payload, _, _ in heard(eve)] == [b"2", b"3"]


@BY_NAME_OR_PATTERN
async def test_what_filters_skip_is_no_loss_and_a_loss_is_told_in_spite_of_filters(
    tmp_path: Path, followed: str
) -> None:
    """Among what is lost there may be messages that would pass."""
    async with Alone(tmp_path, hubs=[open_hub()], live_history_messages=2) as alone:
        speaker, witness = alone.node.connect(), alone.node.connect()
        receive(witness, Subscribe((SubscribeItem("room:1"),), req_id=1))
        (position,) = (await witness.next(Subscribed)).channels
        publish(speaker, "room:1", b"2", b"1", b"1", b"3")
        await witness.delivered("room:1", 4)

        async def back(serial: int) -> tuple[FakeConnection, bool]:
            known = SubscribeItem(
                "room:1", serial=serial, epoch=position.epoch, by_pattern=followed != "room:1"
            )
            connection = alone.node.connect()
            definition = FilterDefinition("f", followed, condition=LARGE)
            wanted = (known,) if followed == "room:1" else (SubscribeItem(followed), known)
            receive(connection, SetFilter(definition), Subscribe(wanted, req_id=2))
            await connection.until(
                lambda: any(each.channels for each in connection.all(Subscribed))
            )
            (confirmed,) = [c for each in connection.all(Subscribed) for c in each.channels]
            return connection, confirmed.recovered

        skipped, recovered = await back(2)
        await skipped.delivered("room:1", 1)
        assert (recovered, heard(skipped)) == (True, [(b"3", 4, 2)])
        lost, recovered = await back(1)
        publish(speaker, "room:1", b"4")
        await lost.until(lambda: (b"4", 5) in [each[:2] for each in heard(lost)])
        assert not recovered


@pytest.mark.spec("LIVE-15")
@BY_NAME_OR_PATTERN
async def test_filters_of_a_killed_node_come_back_at_another_one(
    tmp_path: Path, followed: str
) -> None:
    """The node says nothing any more: what it wrote in time is all there is."""
    stored = msgspec.structs.replace(OPEN, store=True, store_by_default=True)
    async with Cluster(tmp_path, hubs=[open_hub(rules=stored)]) as cluster:
        east, west = cluster.nodes["east"], cluster.nodes["west"]
        client = await follow(east, followed, BOSS)
        key = await client.next(RestoreKey)
        speaker = west.connect(identity=BOSS)
        publish(speaker, "room:1", b"2")
        await client.delivered("room:1", 1)
        await east.node.restore_keys.flush()
        client.error = HubbubError("its node was killed")
        publish(speaker, "room:1", b"1", b"3", b"1", b"4")
        back = west.connect()
        receive(back, Restore(key.restore_key, positions=(Position("room:1", 1),)))
        await back.next(SessionRestored)
        await back.delivered("room:1", 2)
        assert heard(back) == [(b"3", 3, 1), (b"4", 5, 3)]
        assert not back.all(ChannelReset)
