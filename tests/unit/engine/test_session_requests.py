"""Every request that a client can make has exactly one room that answers it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.engine import Alone
from hubbub.domain import requests
from hubbub.domain.requests import Ping, Pong, Publish, Request
from hubbub.domain.search import Search
from hubbub.engine.mqtt.requests import FollowFilters
from hubbub.engine.session_requests import AtOnce, by_type

_HANDLED_BY_THE_SESSION = {Publish, Ping}


async def test_every_request_of_the_domain_is_answered(tmp_path: Path) -> None:
    known = {
        each
        for each in vars(requests).values()
        if isinstance(each, type) and issubclass(each, Request) and each is not Request
    }
    of_rooms = {FollowFilters, Search}
    async with Alone(tmp_path) as alone:
        answered = set(alone.node.node.session_requests)
    assert answered == known - _HANDLED_BY_THE_SESSION | of_rooms


def test_two_rooms_cannot_answer_the_same_request() -> None:
    def answer(session: object, request: Pong) -> None: ...

    with pytest.raises(ValueError, match="Pong"):
        by_type([AtOnce(Pong, answer), AtOnce(Pong, answer)])
