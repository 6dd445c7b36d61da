"""The standing attack in short: every attack for a second, on hubs with their shipped limits.

What is refused, what the victim gets, and memory are checked here. How long the victim waits is
measured by `make attack`, not here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import pytest_asyncio

import attack.attacks
import attack.drills  # noqa: F401
from attack.arena import ATTACKS, BLUE, DRILLS, Arena, Attack, Drill
from attack.clients import Socket, ask, carry_out
from attack.ground import MEMORY_BOUND_MB, Layout, ground
from attack.run import Gauge
from benchmarks.servers import Running

pytestmark = [pytest.mark.spec("SEC-05"), pytest.mark.asyncio(loop_scope="module")]

_SECONDS = 0.6
_SCALE = 0.1
_TLS = frozenset(("tls",))
_KINDS = {frozenset(): "plain", _TLS: "tls", frozenset(("nats",)): "nats"}


_LONG = ("quotas-of-workers",)  # several processes and a database


def _marks(name: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.long] if name in _LONG else []


@dataclass(frozen=True)
class Field:
    """A running hub."""

    process: Running
    arena: Arena


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fields(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, Field]]:
    """One hub of each kind for all attacks: what one leaves behind must not harm the next."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(needs: frozenset[str]) -> Field:
            folder = tmp_path_factory.mktemp(_KINDS[needs])
            _, process, arena = await stack.enter_async_context(ground(folder, Layout(needs)))
            return Field(process, replace(arena, scale=_SCALE))

        yield {_KINDS[needs]: await start(needs) for needs in _KINDS}


@pytest.mark.parametrize(
    "attack",
    [pytest.param(each, marks=_marks(name), id=name) for name, each in ATTACKS.items()],
)
async def test_a_hub_stands_the_attack(fields: dict[str, Field], attack: Attack) -> None:
    field = fields[_KINDS[attack.needs - {"zeromq", "mqtt"}]]
    number = list(ATTACKS).index(attack.name)
    arena = replace(field.arena, source=f"127.0.1.{1 + number}")
    gauge = Gauge(field.process)
    async with asyncio.timeout(60), gauge.watching():
        findings = await carry_out(attack, arena, _SECONDS)
        await _victim_is_served(arena)
    assert not findings.breaches
    assert gauge.peak_mb < MEMORY_BOUND_MB


async def _victim_is_served(arena: Arena) -> None:
    token = arena.tokens[BLUE]
    async with await Socket.connect(arena, token, BLUE, source="127.0.0.1") as socket:
        socket.say("Subscribe", reqID=1, channels=[{"channel": "news"}])
        await socket.find("Subscribe")
        own = replace(arena, source="127.0.0.1")
        path = f"/v1/hubs/{BLUE}/channels/news/messages"
        answer = await ask(own, "POST", path, token, b"still here")
        assert answer.status == 200, answer
        assert (await socket.find("Publish"))["payload"]["payload"] == {"text": "still here"}
        assert (await ask(own, "GET", f"/v1/admin/hubs/{BLUE}/rules", token)).status == 200


@pytest.mark.parametrize(
    "drill",
    [pytest.param(each, marks=_marks(name), id=name) for name, each in DRILLS.items()],
)
async def test_a_hub_stands_the_drill(tmp_path: Path, drill: Drill) -> None:
    findings = await carry_out(drill, tmp_path, None)
    assert not findings.breaches
