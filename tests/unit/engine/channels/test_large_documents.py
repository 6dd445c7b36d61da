"""Large documents among other work: in each hub one after the other, with turns of the loop in
between for everyone else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pytest

from harness.engine import Alone
from harness.running_hub import OPEN, open_hub
from hubbub.domain.documents.changes import ChangeOptions, ChangeOutcome, DocumentQuery
from hubbub.domain.documents.steps import STEP
from hubbub.domain.permissions import Identity, Level
from hubbub.engine.documents.service import Documents

pytestmark = pytest.mark.spec("SEC-01")

CHANNEL = "doc:large"
ROWS = [{"n": number, "text": "x" * 20} for number in range(2_500)]
CHANGE = json.dumps({"parts": {"a": ROWS}}).encode()
SERVICE = Identity(level=Level.SERVICE)
LEAST_TURNS = 6
"""A turn for each 16 KiB of at least 100 KB."""


@pytest.fixture
async def alone(tmp_path: Path) -> AsyncIterator[Alone]:
    async with Alone(tmp_path, hubs=[open_hub(rules=OPEN)]) as running:
        for part in "ab":
            await change(running, json.dumps({"parts": {part: ROWS}}).encode())
        yield running


async def change(
    alone: Alone, patch: bytes, kind: Literal["merge", "patch"] = "merge", channel: str = CHANNEL
) -> ChangeOutcome:
    hub = alone.node.node.hub("acme")
    options = ChangeOptions(kind)
    done = await alone.node.node.feature(Documents).settle(hub, SERVICE, channel, patch, options)
    return done.outcome


async def read(alone: Alone, **query: Any) -> None:
    found = await alone.node.bus.ask(DocumentQuery("acme", CHANNEL, **query))
    assert len(found.document or b"") > 100_000


async def turns_between(work: Callable[[], Coroutine[Any, Any, None]]) -> list[int]:
    """How many turns of the loop lay between the ends of six such works that began together."""
    turns = 0
    ends: list[int] = []

    async def one() -> None:
        await work()
        ends.append(turns)

    tasks = [asyncio.create_task(one()) for _ in range(6)]
    async with asyncio.timeout(10):
        while not all(task.done() for task in tasks):
            turns += 1
            await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    return [after - before for before, after in pairwise(ends)]


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(lambda alone: read(alone), id="read"),
        pytest.param(lambda alone: read(alone, path="/parts"), id="read in part"),
        pytest.param(lambda alone: read(alone, at=1), id="read as it was"),
        pytest.param(lambda alone: change(alone, CHANGE), id="changed"),
    ],
)
async def test_large_documents_leave_turns_to_others(
    alone: Alone, work: Callable[[Alone], Awaitable[None]]
) -> None:
    async def once() -> None:
        await work(alone)

    assert min(await turns_between(once)) >= LEAST_TURNS


async def test_a_small_part_of_a_large_document_waits_for_nobody_after_it(alone: Alone) -> None:
    async def small() -> None:
        found = await alone.node.bus.ask(DocumentQuery("acme", CHANNEL, "/parts/a/0"))
        assert found.document == b'{"n":0,"text":"xxxxxxxxxxxxxxxxxxxx"}'

    assert max(await turns_between(small)) < LEAST_TURNS


async def test_changes_that_wait_behind_large_ones_are_all_applied_in_order(alone: Alone) -> None:
    patches = [json.dumps({"n": number, "parts": {"a": ROWS}}).encode() for number in range(4)]
    small = [json.dumps({"n": number}).encode() for number in range(4, 8)]
    await asyncio.gather(*(change(alone, patch) for patch in [*patches, *small]))
    found = await alone.node.bus.ask(DocumentQuery("acme", CHANNEL, "/n"))
    assert (found.document, found.state.version) == (b"7", 10)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param([[] for _ in range(60_000)], id="lists"),
        pytest.param([{"$$bytes": 0}] * 15_000, id="names that are written otherwise"),
    ],
)
async def test_a_small_change_that_looks_through_much_leaves_turns_to_others(
    alone: Alone, value: Any
) -> None:
    place = "doc:moved"
    whole = json.dumps([{"op": "add", "path": "", "value": {"a": value, "b": {}}}]).encode()
    await change(alone, whole, "patch", place)
    moves = [
        {"op": "move", "from": "/a", "path": "/b/c"},
        {"op": "move", "from": "/b/c", "path": "/a"},
    ]
    patch = json.dumps(moves * 3).encode()
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    done = await change(alone, patch, "patch", place)
    counting.cancel()
    assert turns > 2 * 15_000 // STEP
    query = DocumentQuery("acme", place, at=done.version)
    found = await alone.node.bus.ask(query)
    assert found.document is not None
    assert json.loads(found.document) == {"a": value, "b": {}}
