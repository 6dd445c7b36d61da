"""Requests to a node that was lost and is there again, in another incarnation."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hubbub.cluster import datagrams
from hubbub.cluster.datagrams import AskOccupancy, Reply, Request, Stranger
from hubbub.cluster.sending import NodeLost, Patience, Requests
from hubbub.domain.errors import HubbubError, Unavailable

CALL = AskOccupancy("acme", "news")


class Wire:
    """Keeps what was sent."""

    def __init__(self) -> None:
        self.sent: list[Request] = []

    def send(self, node: str, data: bytes) -> None:
        request = datagrams.decode(data)
        assert isinstance(request, Request)
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
