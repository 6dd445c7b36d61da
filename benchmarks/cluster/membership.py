"""The seed's experiment: three nodes, a fourth joins and is then killed."""

from __future__ import annotations

import asyncio
import signal
import time
import uuid
from collections import Counter
from dataclasses import dataclass
from statistics import median

from benchmarks.cluster.clients import FollowingClient, clients
from benchmarks.cluster.nodes import FOURTH, HUB, NAMES, BenchCluster, BenchNode
from benchmarks.findings import Finding, spread
from hubbub.domain.names import partition_of
from hubbub.domain.ring import make_ring

RING = "the ring is another one"
GONE = "a node is gone"
EFFECTIVE = "the ring is in effect here"
RENEWED = "the owners know again what this node follows"
_QUIET_SECONDS = 1.0
_PATIENCE_SECONDS = 60.0
_OUTAGE_CHANNELS = 30


@dataclass
class Lives:
    """What several lives of the fourth node took, in milliseconds."""

    join: list[float]
    add: list[float]
    seen: list[float]
    remove: list[float]
    resets: int = 0
    cut_off: int = 0


async def live_and_die(cluster: BenchCluster, lives: int, number: signal.Signals) -> Lives:
    """The fourth node joins, and is killed or frozen, several times."""
    taken = Lives([], [], [], [])
    for _ in range(lives):
        fourth = cluster.node(FOURTH)
        try:
            await _join(cluster, fourth, taken)
            await _die(cluster, fourth, number, taken)
        finally:
            await fourth.close()
        await asyncio.sleep(_QUIET_SECONDS)
    return taken


async def _join(cluster: BenchCluster, fourth: BenchNode, taken: Lives) -> None:
    before = time.monotonic()
    await fourth.start()
    said = fourth.note("taking part")
    assert said is not None
    seen = await cluster.first(RING, before, nodes=sorted([*NAMES, FOURTH]))
    taken.join.append(1000 * (max(seen.values()) - said["monotonic"]))
    end = await _settled(cluster, before, [fourth])
    taken.add.append(1000 * (end - said["monotonic"]))


async def _die(
    cluster: BenchCluster, fourth: BenchNode, number: signal.Signals, taken: Lives
) -> None:
    await asyncio.sleep(_QUIET_SECONDS)
    struck = time.monotonic()
    fourth.signal(number)
    seen = await cluster.first(GONE, struck, node=FOURTH)
    taken.seen.append(1000 * (max(seen.values()) - struck))
    end = await _settled(cluster, struck, [])
    taken.remove.append(1000 * (end - min(seen.values())))


async def _settled(cluster: BenchCluster, after: float, more: list[BenchNode]) -> float:
    """When the last node noted that all is as it should be: it serves its share, and the owners
    know what it follows. Waits until nothing more is noted."""
    await cluster.first(EFFECTIVE, after)
    last, since = 0.0, time.monotonic()
    while time.monotonic() - since < _QUIET_SECONDS:
        moments = [*cluster.last(EFFECTIVE, after), *cluster.last(RENEWED, after)]
        for node in more:
            moments += [n["monotonic"] for n in node.notes(after) if n["message"] == EFFECTIVE]
        if max(moments) > last:
            last, since = max(moments), time.monotonic()
        await asyncio.sleep(0.05)
    return last


def membership_findings(killed: Lives, frozen: Lives) -> list[Finding]:
    rows = (
        ("join seen by all", 16.0, [*killed.join, *frozen.join]),
        ("failure seen by all after SIGKILL", 100.0, killed.seen),
        ("failure seen by all after SIGSTOP", 450.0, frozen.seen),
    )
    return [
        Finding(what, f"{reach:.0f} ms", spread(values, " ms", 0), median(values) <= reach)
        for what, reach, values in rows
    ]


async def redistribution(
    cluster: BenchCluster, channels: int, count: int, lives: int
) -> list[Finding]:
    names = [f"c-{uuid.uuid4()}" for _ in range(channels)]
    ports = [node.port for node in cluster.nodes.values()]
    async with clients(ports, count, names) as following:
        subscribed = sum(client.subscribed for client in following)
        failure = next((client.failure for client in following if client.failure), None)
        assert subscribed == channels, f"{subscribed} of {channels} are subscribed: {failure}"
        taken = await live_and_die(cluster, lives, signal.SIGKILL)
        closed = sum(client.closed for client in following)
        resets = sum(client.resets for client in following)
    reach = 3000.0 if channels >= 100_000 else 100.0
    promised = channels in (4_500, 100_000)
    findings = []
    for what, values in (("add", taken.add), ("remove", taken.remove)):
        met = median(values) <= reach and not closed
        findings.append(
            Finding(
                f"redistribution, {what}: {channels:,} channels, {count} clients",
                f"{reach:,.0f} ms" if promised else "",
                f"{spread(values, ' ms', 0)}, {closed} connections lost, {resets:,} new epochs",
                met if promised else None,
            )
        )
    return findings


def spread_of_channels(draws: int = 100) -> Finding:
    """From the ring itself, which every node computes from the names."""
    owners = make_ring((name, "") for name in NAMES).owners
    shares = []
    for _ in range(draws):
        counts = Counter(owners[partition_of(HUB, str(uuid.uuid4()))] for _ in range(500))
        shares.append(max(counts.values()) * len(NAMES) / 500)
    return Finding(
        f"largest share of 500 UUID-named channels over 3 nodes, {draws} draws",
        "1.25 of the mean",
        spread(shares),
        max(shares) <= 1.25,
    )


async def outage(cluster: BenchCluster, lives: int) -> Finding:
    """From SIGKILL of a node until a client of another has a publish accepted in each of the dead
    node's channels."""
    longest, middles = [], []
    for _ in range(lives):
        fourth = cluster.node(FOURTH)
        try:
            await fourth.start()
            seconds = await _one_outage(cluster, fourth)
        finally:
            await fourth.close()
        longest.append(1000 * max(seconds))
        middles.append(1000 * median(seconds))
        await asyncio.sleep(_QUIET_SECONDS)
    reached = (
        f"{spread(longest, ' ms', 0)} for the last channel, {spread(middles, ' ms', 0)} median"
    )
    what = f"without service after SIGKILL, {_OUTAGE_CHANNELS} stored channels, until the ack"
    return Finding(what, "1,000 ms", reached, median(longest) <= 1000)


async def _one_outage(cluster: BenchCluster, fourth: BenchNode) -> list[float]:
    owners = make_ring((name, "") for name in (*NAMES, FOURTH)).owners
    names = (f"log:{uuid.uuid4()}" for _ in range(10_000))
    theirs = [name for name in names if owners[partition_of(HUB, name)] == FOURTH]
    theirs = theirs[:_OUTAGE_CHANNELS]
    ports = [node.port for node in cluster.nodes.values()]
    async with clients(ports, len(theirs), []) as speakers:
        for speaker, channel in zip(speakers, theirs, strict=True):
            assert await _accepted(speaker, channel)
        await asyncio.sleep(_QUIET_SECONDS)
        struck = time.monotonic()
        fourth.signal(signal.SIGKILL)

        async def served(speaker: FollowingClient, channel: str) -> float:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while not await speaker.publish(channel):
                    await asyncio.sleep(0.001)
            return time.monotonic() - struck

        pairs = zip(speakers, theirs, strict=True)
        return list(await asyncio.gather(*(served(s, c) for s, c in pairs)))


async def _accepted(speaker: FollowingClient, channel: str) -> bool:
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while not await speaker.publish(channel):
            await asyncio.sleep(0.05)
    return True
