"""Erasing a user takes the user off channels with an owner, and ends subscriptions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.admin import admin_of
from harness.commands import Stage
from harness.running_hub import StartHub
from hubbub.domain.permissions import Level

OK, NOT_AUTHORIZED = 0, 5
ANN = "/v1/admin/hubs/demo/users/ann"


async def erased(stage: Stage) -> dict[str, int]:
    answer = await admin_of(stage.hub)("DELETE", ANN)
    assert answer.status == 200, answer.text
    counts: dict[str, int] = answer.json
    return {name: count for name, count in counts.items() if count}


@pytest.fixture
async def stage(start_hub: StartHub) -> Any:
    """Ann owns #news and takes part in it, as in #club, which Bob owns."""
    stage = await Stage.open(start_hub)
    ann, bob = stage.user("ann", door="http"), stage.user("bob", door="http")
    assert await ann.create("news", "ann", "bob") == (OK, None)
    assert await bob.create("club", "ann", "bob", active=False) == (OK, None)
    assert await ann.create("alone") == (OK, None)
    yield stage
    await stage.close()


@pytest.mark.spec("CMD-02")
async def test_an_erased_user_neither_takes_part_nor_owns_channels(stage: Stage) -> None:
    ann, bob = stage.user("ann", door="http"), stage.user("bob", door="http")
    assert await erased(stage) == {"participations": 2, "ownedChannels": 2}
    status, channels = await stage.user("root", Level.ADMIN).ask("hGetChannels")
    assert (status, "ann" in json.dumps(channels)) == (OK, False)
    assert {each["chid"]: (each["owner"], each["active"]) for each in channels} == {
        "#alone@demo": ("hnode@demo", True),
        "#club@demo": ("bob@demo", False),
        "#news@demo": ("hnode@demo", True),
    }
    assert (await ann.publish("news", 1))[0] == NOT_AUTHORIZED
    assert (await bob.publish("news", 1))[0] == OK, "the others go on"
    assert await erased(stage) == {}, "nothing is left"


@pytest.mark.spec("CMD-03")
async def test_subscriptions_of_an_erased_user_end_in_all_sessions(stage: Stage) -> None:
    ann, elsewhere, bob = (stage.user(name) for name in ("ann", "ann", "bob"))
    await elsewhere.connected()
    for user in (ann, bob):
        assert await user.ask("hSubscribe", {"chid": "news"}) == (OK, None)
    feed = stage.hub.server.node.hub("demo").feeds["news"]
    assert feed.subscribers == 3
    assert (await erased(stage))["subscriptions"] == 1
    assert feed.subscribers == 1
    assert await ann.ask("hGetSubscriptions") == (OK, [])
    assert await stage.hub.server.store.read_subscribed_users("demo", "news") == ["bob"]


@pytest.mark.spec("CMD-02")
async def test_a_service_gives_a_channel_that_lost_its_owner_to_a_user(stage: Stage) -> None:
    ann, bob = stage.user("ann", door="http"), stage.user("bob", door="http")
    service = stage.user("shop", Level.SERVICE, door="http")
    record = {"chid": "news", "owner": "bob@demo", "participants": ["bob@demo"], "active": True}

    async def give() -> int:
        status, _ = await service.ask("hCreateUpdateChannel", record, requester="bob@demo")
        return status

    assert await give() == NOT_AUTHORIZED, "Ann owns it"
    await erased(stage)
    for user in (ann, bob):
        assert (await user.create("news", "ann", "bob"))[0] == NOT_AUTHORIZED, "nobody takes it"
    assert await give() == OK
    assert (await bob.create("news", "bob"))[0] == OK
    assert await give() == OK, "for its owner, as before"
    assert (await service.create("news", "bob"))[0] == NOT_AUTHORIZED
