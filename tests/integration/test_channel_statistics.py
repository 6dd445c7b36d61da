"""Statistics of a channel, by command."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest

from harness.commands import Door, Stage
from harness.running_hub import StartHub

pytestmark = pytest.mark.spec("CMD-09")


@pytest.mark.parametrize("door", get_args(Door))
async def test_a_participant_learns_what_a_channel_holds(start_hub: StartHub, door: Door) -> None:
    stage = await Stage.open(start_hub, door)
    ann, bob, eve = (stage.user(name) for name in ("ann", "bob", "eve"))
    await ann.create("#news", "ann", "bob")
    empty = {"published": 0, "stored": 0, "storedBytes": 0, "participants": 2, "subscribers": 0}
    chid = {"chid": "#news@demo"}
    assert await bob.ask("hStatistics", {"chid": "#news"}) == (0, chid | empty)
    await bob.ask("hSubscribe", {"chid": "#news"})
    for text in ("one", "three", "a message that is not kept"):
        await ann.publish("#news", text, transient=text.startswith("a "))
    status, told = await bob.ask("hStatistics", {"chid": "#news"})
    assert status == 0
    oldest, newest = (datetime.fromisoformat(told.pop(name)) for name in ("oldest", "newest"))
    assert datetime.now(UTC) - timedelta(minutes=5) < oldest <= newest <= datetime.now(UTC)
    held = {"published": 2, "stored": 2, "storedBytes": len('"one""three"'), "subscribers": 1}
    assert told == chid | empty | held
    await stage.hub.delete_before("news", 2, "demo")
    _, told = await bob.ask("hStatistics", {"chid": "#news"})
    assert (told["published"], told["stored"]) == (2, 1)
    assert (await eve.ask("hStatistics", {"chid": "#news"}))[0] == 5
    assert (await eve.ask("hStatistics", {"chid": "#nowhere"}))[0] == 9
    assert (await eve.ask("hStatistics", {}))[0] == 6
    assert (await eve.ask("hStatistics", {"chid": 7}))[0] == 7
    await ann.create("#news", "ann", "bob", active=False)
    assert (await bob.ask("hStatistics", {"chid": "#news"}))[0] == 5
    await stage.close()
