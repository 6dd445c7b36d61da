"""Questions of sessions that do not read the answers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.engine import Alone
from hubbub.domain.notices import HistoryPage, Presence
from hubbub.domain.requests import History, PresenceQuery, Request


@pytest.mark.spec("SEC-01", "LIVE-13")
@pytest.mark.parametrize(
    ("question", "answer"),
    [(History("news"), HistoryPage), (PresenceQuery("news"), Presence)],
    ids=["history", "presence"],
)
async def test_a_session_that_does_not_read_is_answered_when_it_has_read(
    tmp_path: Path, question: Request, answer: type[HistoryPage | Presence]
) -> None:
    """Otherwise every question adds an answer to what already waits for the client."""
    async with Alone(tmp_path) as alone:
        slow, quick = alone.node.connect(), alone.node.connect()
        reads = asyncio.Event()
        slow.drain = reads.wait  # type: ignore[assignment, method-assign]
        slow.say(*[question] * 3)
        quick.say(question)
        await quick.next(answer)
        assert not [each for each in slow.heard if isinstance(each, answer)]
        reads.set()
        for _ in range(3):
            await slow.next(answer)
