"""The ring spreads partitions evenly, and moves few of them."""

from __future__ import annotations

import random
import uuid
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.domain.names import PARTITIONS, partition_of
from hubbub.domain.ring import NO_RING, Ring, make_ring

names = st.sets(st.text(min_size=1, max_size=20), min_size=1, max_size=12)


def ring_of(*nodes: str) -> Ring:
    return make_ring((node, f"life of {node}") for node in nodes)


def moved(before: Ring, after: Ring) -> list[int]:
    """The partitions that have another owner than before."""
    pairs = enumerate(zip(before.owners, after.owners, strict=True))
    return [partition for partition, (old, new) in pairs if old != new]


@pytest.mark.spec("CLU-02")
@given(names)
@settings(max_examples=30)
def test_every_partition_has_an_owner_and_every_node_the_mean_share(nodes: set[str]) -> None:
    shares = Counter(ring_of(*nodes).owners)
    assert set(shares) == nodes
    mean = PARTITIONS / len(nodes)
    assert all(abs(share - mean) < 1 for share in shares.values())


@pytest.mark.spec("CLU-02")
@given(names, st.text(min_size=1, max_size=20))
@settings(max_examples=30)
def test_a_node_that_joins_moves_little_more_than_its_own_share(
    nodes: set[str], newcomer: str
) -> None:
    nodes.discard(newcomer)
    if not nodes:
        return
    before, after = ring_of(*nodes), ring_of(*nodes, newcomer)
    least = PARTITIONS / (len(nodes) + 1)
    assert len(moved(before, after)) <= 1.6 * least + 2
    assert len(moved(after, before)) == len(moved(before, after)), "and back when it leaves"


@pytest.mark.spec("CLU-02")
def test_uuid_named_channels_spread_over_three_nodes() -> None:
    ring, chance = ring_of("east", "north", "west"), random.Random(7)
    channels = [str(uuid.UUID(int=chance.getrandbits(128))) for _ in range(500)]
    shares = Counter(ring.owners[partition_of("demo", channel)] for channel in channels)
    assert max(shares.values()) <= 1.25 * 500 / 3


@pytest.mark.spec("CLU-02")
def test_similar_names_of_channels_and_nodes_spread_too() -> None:
    ring = ring_of("node-1", "node-2", "node-3")
    shares = Counter(ring.owners[partition_of("demo", f"room:{n}")] for n in range(500))
    assert max(shares.values()) <= 1.25 * 500 / 3


def test_the_order_in_which_members_are_named_does_not_matter() -> None:
    assert ring_of("a", "b", "c") == ring_of("c", "a", "b")


def test_a_restart_changes_the_version_and_moves_nothing() -> None:
    before = make_ring([("a", "first"), ("b", "first")])
    after = make_ring([("a", "second"), ("b", "first")])
    assert after.version != before.version
    assert moved(before, after) == []


def test_without_members_nobody_owns_anything() -> None:
    assert set(NO_RING.owners) == {""}
    assert NO_RING.partitions_of("a") == []
    assert len(ring_of("a").partitions_of("a")) == PARTITIONS
