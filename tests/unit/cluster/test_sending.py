"""Requests to a node that was lost and is there again, in another incarnation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hubbub.cluster import datagrams
from hubbub.cluster.datagrams import DatagramReader, LaneRequest, Reply, Stranger
from hubbub.cluster.lanes import WINDOW
from hubbub.cluster.sending import NodeLost, Patience, Requests
from hubbub.domain.asking import NodeLane
from hubbub.domain.commands.routed import CommandAddressee, RouteCommand, RoutedCommand
from hubbub.domain.errors import HubbubError, Unavailable
from hubbub.ports.bus import OccupancyQuery, Watch, WatchPatterns

CALL = OccupancyQuery("acme", "news")
COMMAND = RouteCommand(RoutedCommand(CommandAddressee("acme", "zoe"), "r1", b"{}", 5.0))
PATTERNS = WatchPatterns(Watch("acme", ("news-*",), 1))
KINDS = (RouteCommand, WatchPatterns)


class Wire:
    """Keeps what was sent."""

    def __init__(self) -> None:
        self.sent: list[LaneRequest[Any]] = []

    def send(self, node: str, data: bytes) -> None:
        request = DatagramReader(KINDS).read(data)
        assert isinstance(request, LaneRequest)
        self.sent.append(request)

    def listen(self, receive: Callable[[bytes], None]) -> None:
        """Nobody answers by itself."""


@pytest.mark.spec("CLU-04")
async def test_what_is_sent_after_a_loss_does_not_fail_because_the_node_was_restarted() -> None:
    wire = Wire()
    answers: list[tuple[object, HubbubError | None]] = []
    requests = Requests("east", "e1", wire, Patience())

    def conclude(value: object, error: HubbubError | None) -> None:
        answers.append((value, error))

    requests.send("west", 7, CALL, int, conclude)
    requests.meet(Stranger("west", "w1", "e1"))
    assert [request.receiver for request in wire.sent] == ["", "w1"]
    requests.lose("west")
    error = answers[0][1]
    assert isinstance(error, NodeLost)
    assert error.perhaps, "it went to an incarnation that may have taken it up"

    requests.send("west", 7, CALL, int, conclude)
    requests.meet(Stranger("west", "w2", "e1"))
    again = wire.sent[-1]
    assert again.receiver == "w2"
    value = datagrams.encode_value(3)
    requests.receive_reply(Reply("west", "w2", "e1", 7, again.number, value, None))
    assert answers[1] == (3, None)
    requests.close()


@pytest.mark.spec("CLU-04")
async def test_a_deadline_less_than_a_tick_of_the_loop_away_still_ends_the_request() -> None:
    """uvloop runs a timer under half a millisecond at once, before its time."""
    requests = Requests("east", "e1", Wire(), Patience())
    for _ in range(50):
        with pytest.raises(Unavailable, match="does not answer"):
            await requests.ask("west", 7, CALL, int, seconds=0.0004)
    requests.close()


@pytest.mark.spec("CLU-04")
async def test_commands_that_fill_their_lane_do_not_hold_up_patterns() -> None:
    wire = Wire()
    requests = Requests("east", "e1", wire, Patience())
    for _ in range(WINDOW + 1):
        requests.send("west", COMMAND.lane, COMMAND, int, lambda value, error: None)
    assert len(wire.sent) == WINDOW, "one waits for a place"
    requests.send("west", PATTERNS.lane, PATTERNS, None, lambda value, error: None)
    sent = wire.sent[-1]
    assert (sent.call, sent.lane, sent.number) == (PATTERNS, NodeLane.PATTERNS, 1)
    requests.close()


@pytest.mark.spec("CLU-04")
def test_lanes_have_the_numbers_that_they_had_in_the_version_before() -> None:
    assert {lane.name: lane.value for lane in NodeLane} == {
        "HUB": -1,
        "QUESTIONS": -2,
        "COMMANDS": -3,
        "PATTERNS": -4,
    }
