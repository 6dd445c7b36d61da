"""Every request that a client can make has exactly one room that answers it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.engine import Alone
from hubbub.domain.requests import Ping, Pong, Publish, UndecodableRequest
from hubbub.engine.mqtt.requests import FollowFilters
from hubbub.engine.session_requests import AtOnce, by_type
from hubbub.protocols.events import REQUESTS

_HANDLED_BY_THE_SESSION = {Publish, Ping}


async def test_every_request_of_the_protocol_is_answered(tmp_path: Path) -> None:
    of_clients = {event.struct for event in REQUESTS} - _HANDLED_BY_THE_SESSION
    async with Alone(tmp_path) as alone:
        answered = set(alone.node.node.session_requests)
    assert answered == {*of_clients, UndecodableRequest, FollowFilters}


def test_two_rooms_cannot_answer_the_same_request() -> None:
    def answer(session: object, request: Pong) -> None: ...

    with pytest.raises(ValueError, match="Pong"):
        by_type([AtOnce(Pong, answer), AtOnce(Pong, answer)])
