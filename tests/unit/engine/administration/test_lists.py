"""Pages of long lists, compared with sorting everything."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from harness.engine import Alone
from hubbub.domain import sorted_names
from hubbub.domain.permissions import Identity
from hubbub.domain.rules import Rules
from hubbub.engine.administration import dry_run, lists
from hubbub.engine.administration.lists import (
    ListChannels,
    ListSessions,
    channel_page,
    ranked,
    session_page,
)
from hubbub.engine.hub import Hub


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "SLICE", 4)


async def every_channel(hub: Hub, limit: int, **wanted: str) -> list[tuple[int, str]]:
    """All pages, one after the other."""
    found: list[lists.Ranked] = []
    after = ""
    while True:
        question = ListChannels(hub.name, limit, after, **wanted)  # type: ignore[arg-type]
        page, _ = await channel_page(hub, question)
        found += page
        if len(page) < limit:
            return list(found)
        after = page[-1].cursor if "sort" in wanted else page[-1].name


async def crowded(alone: Alone) -> Hub:
    """Channels with none to three subscribers, most of them with one."""
    for number in range(40):
        for _ in range(3 if number % 10 == 0 else 2 if number % 7 == 0 else 1):
            await alone.node.subscribe(f"room:{number}")
    return alone.node.node.hub("acme")


@pytest.mark.spec("ADMIN-01")
@pytest.mark.parametrize("limit", [1, 3, 7, 100])
async def test_pages_of_channels_are_parts_of_one_order(tmp_path: Path, limit: int) -> None:
    async with Alone(tmp_path) as alone:
        hub = await crowded(alone)
        sizes = {name: feed.subscribers for name, feed in hub.feeds.items()}
        by_name = sorted((name, size) for name, size in sizes.items())
        assert await every_channel(hub, limit) == [(size, name) for name, size in by_name]
        busiest = sorted(((size, name) for name, size in sizes.items()), reverse=True)
        assert await every_channel(hub, limit, sort="-sessions") == busiest
        some = [each for each in busiest if "3" in each[1]]
        assert await every_channel(hub, limit, sort="-sessions", q="3") == some
        assert await every_channel(hub, limit, q="3") == sorted(some, key=lambda each: each[1])
        question = ListChannels("acme", 1, q="3")
        assert (await channel_page(hub, question))[1] == len(some)


@pytest.mark.spec("ADMIN-01")
async def test_sessions_are_found_by_user_channel_id_and_time(tmp_path: Path) -> None:
    async with Alone(tmp_path) as alone:
        for number in range(20):
            identity = Identity(user_id=f"user{number % 3}")
            await alone.node.subscribe("even" if number % 2 else "odd", identity=identity)
            alone.clock.advance(0.5)
        hub = alone.node.node.hub("acme")
        every = sorted(hub.sessions)

        async def found(limit: int = 100, **wanted: object) -> tuple[list[str], int]:
            question = ListSessions("acme", limit, **wanted)  # type: ignore[arg-type]
            sessions, total = await session_page(hub, question)
            return [session.id for session in sessions], total

        assert await found() == (every, 20)
        assert await found(3, after=every[4]) == (every[5:8], 20)
        of_user = sorted(s.id for s in hub.sessions.values() if s.identity.user_id == "user1")
        assert await found(user_id="user1") == (of_user, len(of_user))
        assert await found(q="ser1") == (of_user, len(of_user))
        assert await found(user_id="user1", q="user2") == ([], 0)
        assert await found(q=every[7][:12]) == ([every[7]], 1)
        in_even = sorted(s.id for s in hub.sessions.values() if "even" in (s.feeds or ()))
        assert await found(channel="even") == (in_even, 10)
        assert await found(2, channel="even", after=in_even[0]) == (in_even[1:3], 10)
        assert await found(channel="nowhere") == ([], 0)
        opened = sorted(hub.sessions.values(), key=lambda s: -s.opened_at)
        first, total = await found(7, sort="-opened")
        assert (first, total) == ([session.id for session in opened[:7]], 20)
        cursor = f"{int(opened[6].opened_at * 1000)} {opened[6].id}"
        assert (await found(7, sort="-opened", after=cursor))[0] == [s.id for s in opened[7:14]]
        await alone.node.subscribe("even")
        gone = hub.sessions[every[0]]
        alone.node.node.close(gone)
        assert every[0] not in (await found())[0]


@pytest.mark.spec("ADMIN-01")
async def test_pages_of_the_newest_sessions_are_right_while_sessions_come_and_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorted_names, "_BLOCK", 3)
    async with Alone(tmp_path) as alone:
        hub, random = alone.node.node.hub("acme"), Random(1)
        for _ in range(60):
            await alone.node.subscribe("news")
            # Of two in one millisecond the id decides; a clock that was set back changes nothing.
            alone.clock.advance(random.choice((0.0, 0.0004, 0.01, -0.02)))
            if random.random() < 0.3:
                alone.node.node.close(random.choice(list(hub.sessions.values())))
            if random.random() < 0.2:  # restored on the connection of another one
                heir, old = random.choices(list(hub.sessions.values()), k=2)
                hub.remove_session(heir)
                heir.id = old.id
                hub.add_session(heir)
        found, after = list[str](), ""
        while True:
            question = ListSessions("acme", 4, after, sort="-opened")
            page, total = await session_page(hub, question)
            found += [each.id for each in page]
            if not page:
                break
            after = f"{int(page[-1].opened_at * 1000)} {page[-1].id}"
        ages = {(int(each.opened_at * 1000), each.id) for each in hub.sessions.values()}
        assert found == [each for _, each in sorted(ages, reverse=True)]
        assert total == len(found)


@pytest.mark.parametrize("cursor", ["x", "-1 a", "1" * 30, "²a", " "])
def test_any_text_is_a_place_in_the_order(cursor: str) -> None:
    assert ranked(cursor) == (0, cursor)
    assert ranked("3 a b") == (3, "a b")


@pytest.mark.spec("SEC-01")
async def test_sessions_with_many_channels_are_looked_at_in_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[None] = []

    async def pause() -> None:
        turns.append(None)

    monkeypatch.setattr(lists, "pause", pause)
    monkeypatch.setattr(lists, "SLICE", 40)
    monkeypatch.setattr(dry_run, "pause", pause)
    monkeypatch.setattr(dry_run, "_CHECKS_IN_A_TURN", 20)
    async with Alone(tmp_path) as alone:
        for _ in range(5):
            await alone.node.subscribe(*(f"room:{number}" for number in range(40)))
        hub = alone.node.node.hub("acme")
        names = set(hub.feeds)
        assert await lists.some_sessions(hub, names, 5) == {
            name: list(hub.sessions) for name in names
        }
        assert len(turns) >= 5
        turns.clear()
        source = hub.configuration.source_of("room:0")[1]
        effect = await dry_run.effect_on(hub, dry_run.TryRules("acme", str(source), Rules()))
        assert (effect.checked, effect.losing) == (200, 200)
        assert len(turns) >= 10
