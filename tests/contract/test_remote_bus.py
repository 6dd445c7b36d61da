"""The bus's contract between two nodes, on a network that loses, doubles, delays and reorders; and
what happens when a node does not answer at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from contract.bus_contract import HUB, SMALL, BusContract, Place, message, publish
from harness.engine import Cluster, RecordingSink, StaticOwners
from harness.unreliable import STORMY, Faults
from hubbub.cluster import datagrams
from hubbub.cluster.datagrams import (
    DatagramReader,
    FeedDatagram,
    Head,
    Heads,
    LaneRequest,
    Reply,
    Stranger,
    Tell,
)
from hubbub.cluster.lanes import WINDOW, ReceivingLane
from hubbub.cluster.remote import Patience, RemoteBus
from hubbub.domain.errors import HubbubError, Malformed, Unavailable, catalogue
from hubbub.domain.history import HistoryQuery
from hubbub.domain.notices import Member
from hubbub.ports.bus import Attach, MembersJoined, MessagePublished, PublishOutcome

IMPATIENT = Patience(deadline_seconds=0.2, first_retry_seconds=0.01, longest_retry_seconds=0.05)


def remote_channel(cluster: Cluster, prefix: str) -> str:
    """A channel of the node `west`, in both hubs that the suite uses."""
    names = (f"{prefix}-{number}" for number in range(1000))
    return next(
        name
        for name in names
        if cluster.owner_of("acme", name) == cluster.owner_of("small", name) == "west"
    )


def place_of(cluster: Cluster, name: str = "news") -> Place:
    """Sessions on `east`, channels on `west`."""
    sink = RecordingSink()
    bus = cluster.nodes["east"].bus
    assert isinstance(bus, RemoteBus)
    east = cluster.nodes["east"]
    bus.connect(east.owner, sink, sink.in_place_of(east))
    channel, kept = remote_channel(cluster, name), remote_channel(cluster, f"kept:{name}")
    return Place(bus, sink, cluster.nodes["west"], channel, kept)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def calm(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path_factory.mktemp("calm"), hubs=[HUB, SMALL]) as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stormy(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    faults = Faults(lost=0.1, doubled=0.5, longest_delay_seconds=0.004)
    path = tmp_path_factory.mktemp("stormy")
    async with Cluster(path, seed=2, faults=faults, hubs=[HUB, SMALL]) as cluster:
        yield cluster


class TestCalmNetwork(BusContract):
    @pytest.fixture
    def place(self, calm: Cluster, request: pytest.FixtureRequest) -> Place:
        return place_of(calm, request.node.name)


class TestStormyNetwork(BusContract):
    @pytest.fixture
    def place(self, stormy: Cluster, request: pytest.FixtureRequest) -> Place:
        return place_of(stormy, request.node.name)


@pytest.mark.spec("LIVE-10")
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_every_publish_takes_effect_once_and_in_order_in_a_storm(
    tmp_path: Path, seed: int
) -> None:
    async with Cluster(
        tmp_path, seed=seed, faults=STORMY, hubs=[HUB], live_history_messages=1000
    ) as cluster:
        place = place_of(cluster)
        outcomes = await publish(place.bus, *(message(n, place.channel) for n in range(1, 401)))
        assert sorted(outcome.serial for outcome in outcomes) == list(range(1, 401))
        page = await place.bus.ask(HistoryQuery("acme", place.channel, 1000, after=0))
        assert [each.id for each in page.messages] == [f"m{n}" for n in range(1, 401)]


async def test_more_publishes_at_once_than_the_window_holds_are_all_answered(
    tmp_path: Path,
) -> None:
    count = 2 * WINDOW + 7
    async with Cluster(
        tmp_path, seed=4, faults=STORMY, hubs=[HUB], live_history_messages=count
    ) as cluster:
        place = place_of(cluster)
        outcomes = await publish(place.bus, *(message(n, place.channel) for n in range(count)))
        assert sorted(outcome.serial for outcome in outcomes) == list(range(1, count + 1))


async def test_a_node_that_does_not_answer_makes_requests_fail_as_unavailable(
    tmp_path: Path,
) -> None:
    async with Cluster(tmp_path, hubs=[HUB], patience=IMPATIENT) as cluster:
        place = place_of(cluster)
        cluster.network.cut.add(("east", "west"))
        with pytest.raises(Unavailable):
            await place.bus.ask(Attach("acme", place.channel))
        (outcome,) = await publish(place.bus, message(1, place.channel))
        assert isinstance(outcome.error, Unavailable)
        assert outcome.error.retry


async def test_requests_go_on_in_order_after_some_were_given_up(tmp_path: Path) -> None:
    async with Cluster(tmp_path, hubs=[HUB], patience=IMPATIENT) as cluster:
        place = place_of(cluster)
        (first,) = await publish(place.bus, message(1, place.channel))
        cluster.network.cut.add(("east", "west"))
        lost = await publish(place.bus, *(message(n, place.channel) for n in (2, 3)))
        assert all(isinstance(outcome.error, Unavailable) for outcome in lost)
        cluster.network.cut.clear()
        outcomes = await publish(place.bus, *(message(n, place.channel) for n in (4, 5)))
        assert [first.serial] + [outcome.serial for outcome in outcomes] == [1, 2, 3]


async def test_a_request_whose_answers_are_lost_takes_effect_once(tmp_path: Path) -> None:
    async with Cluster(tmp_path, hubs=[HUB], patience=IMPATIENT) as cluster:
        place = place_of(cluster)
        await publish(place.bus, message(1, place.channel))
        cluster.network.cut.add(("west", "east"))
        (outcome,) = await publish(place.bus, message(2, place.channel))
        assert isinstance(outcome.error, Unavailable)
        cluster.network.cut.clear()
        (outcome,) = await publish(place.bus, message(3, place.channel))
        assert outcome.serial == 3, "the one in between took effect, once"


async def test_what_was_meant_for_a_node_before_its_restart_is_not_taken_up_after_it(
    tmp_path: Path,
) -> None:
    async with Cluster(tmp_path, hubs=[HUB]) as cluster:
        place = place_of(cluster)
        await publish(place.bus, message(1, place.kept, store=True))
        cluster.network.cut.add(("west", "east"))
        outcomes: list[PublishOutcome] = []
        answered = asyncio.Event()

        def reply(outcome: PublishOutcome) -> None:
            outcomes.append(outcome)
            answered.set()

        place.bus.publish(message(2, place.kept, store=True), reply)
        query = HistoryQuery("acme", place.kept, 10, after=1)
        while not (await place.home.bus.ask(query)).messages:
            pass
        await place.home.owner.stop()
        assert isinstance(place.home.bus, RemoteBus)
        await place.home.bus.close()
        await cluster.start_node("west")
        cluster.network.cut.clear()
        await asyncio.wait_for(answered.wait(), 5)
        assert isinstance(outcomes[0].error, Unavailable)
        (outcome,) = await publish(place.bus, message(3, place.kept, store=True))
        assert outcome.serial == 3, "the new node went on from the store, without a repetition"


async def test_a_node_that_does_not_own_the_channel_refuses(tmp_path: Path) -> None:
    async with Cluster(tmp_path, hubs=[HUB]) as cluster:
        place = place_of(cluster)
        astray = RemoteBus(
            "east",
            cluster.network.transport("east"),
            owners=StaticOwners("east", ["west"]),
            nodes=lambda: ["east", "west"],
            patience=IMPATIENT,
        )
        east = cluster.nodes["east"]
        astray.connect(east.owner, place.sink, place.sink.in_place_of(east))
        with pytest.raises(Unavailable, match=r"no node serves|does not answer"):
            await astray.ask(Attach("acme", cluster.channel_of("east")))
        await astray.close()


async def test_what_cannot_be_read_is_ignored(tmp_path: Path) -> None:
    async with Cluster(tmp_path, hubs=[HUB]) as cluster:
        place = place_of(cluster)
        for garbage in (b"", b"\xc1", b"hello", datagrams.encode_value({"type": "request"})):
            cluster.network.carry("east", "west", bytes(garbage))
        (outcome,) = await publish(place.bus, message(1, place.channel))
        assert outcome.serial == 1


def test_every_error_survives_the_way_between_nodes() -> None:
    for code, kind in catalogue().items():
        reply = Reply("west", "w", "e", 3, 4, datagrams.NOTHING, kind(f"about {code}"))
        arrived = DatagramReader().read(datagrams.encode(reply))
        assert isinstance(arrived, Reply)
        assert isinstance(arrived.error, HubbubError)
        assert type(arrived.error) is kind
        assert arrived.error.message == f"about {code}"


@pytest.mark.parametrize(
    "datagram",
    [
        LaneRequest("east", "e", "", 1, 2, 1, Attach("acme", "news")),
        Stranger("west", "w", "e"),
        Heads("west", "w", (Head("acme", "news", "epoch", 7), Head("acme", "é:1", "", 0))),
        FeedDatagram("west", "w", 9, "acme", "news", MessagePublished(message(1, "news"), "epoch")),
        LaneRequest(
            "west",
            "w",
            "e",
            1,
            2,
            1,
            Tell(
                "acme", "news", MembersJoined((Member("s", None, {"deep": [1, {"x": None}]}, 5),))
            ),
        ),
    ],
)
def test_datagrams_are_read_as_they_were_written(datagram: datagrams.Datagram) -> None:
    assert DatagramReader().read(datagrams.encode(datagram)) == datagram


def test_a_datagram_that_is_cut_off_is_malformed() -> None:
    data = datagrams.encode(LaneRequest("east", "e", "", 1, 2, 1, Attach("acme", "news")))
    for size in range(len(data)):
        with pytest.raises(Malformed):
            DatagramReader().read(data[:size])


def test_a_lane_takes_each_number_up_once_and_in_order() -> None:
    lane = ReceivingLane()
    call = Attach("acme", "news")
    assert lane.take(2, 1, call) == []
    assert [number for number, *_ in lane.take(1, 1, call)] == [1, 2]
    assert lane.take(1, 1, call) == []
    assert lane.take(5, 3, call) == []
    assert [number for number, *_ in lane.take(7, 5, call)] == [5], "3 and 4 were given up"
    assert lane.take(6 + WINDOW, 5, call) == [], "further ahead than anyone may be"
    assert [number for number, *_ in lane.take(6, 5, call)] == [6, 7]


def test_a_lane_keeps_answers_until_the_sender_has_them() -> None:
    lane = ReceivingLane()
    lane.take(1, 1, Attach("acme", "news"))
    lane.answer(1, b"answer")
    lane.take(1, 1, Attach("acme", "news"))
    assert lane.answer_to(1) == b"answer"
    lane.take(2, 2, Attach("acme", "news"))
    assert lane.answer_to(1) is None
