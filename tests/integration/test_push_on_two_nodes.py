"""Push in a cluster: whichever node a user is connected to, a message reaches a device once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.engine import Cluster, EngineNode, receive
from harness.push_services import BrowserService, push_hub
from harness.receivers import whole_answer
from hubbub.domain.messages import JSON
from hubbub.domain.notices import Published
from hubbub.domain.permissions import Identity
from hubbub.domain.push.tokens import PushSubscription, read_token
from hubbub.domain.requests import Publish, PublishItem
from hubbub.engine.push import driver as driving
from hubbub.engine.push.followings import PushFollowings
from hubbub.ports.bus import UserErased
from hubbub.ports.storage import Store

pytestmark = pytest.mark.spec("PUSH-01")


async def register(node: EngineNode, store: Store, service: BrowserService, user: str) -> None:
    given = msgspec.convert(service.browser(f"/{user}").subscription, PushSubscription)
    now = int(node.node.clock.now() * 1000)
    token = read_token("acme", user, "webpush", given, now, reach="loopback")
    key = await node.push_credentials.vapid_key("acme")
    await store.save_push_token(msgspec.structs.replace(token, vapid_key=key.id))


async def pushed(node: EngineNode, channel: str, **options: Any) -> None:
    item = PublishItem(
        channel, "e", b"1", JSON, push=True, req_id=1, push_options={"title": "t", **options}
    )
    client = node.connect(identity=Identity(user_id="zoe"))
    receive(client, Publish((item,)))
    await client.next(Published)


async def idle(cluster: Cluster) -> None:
    async with asyncio.timeout(20):
        while any(node.push.queues for node in cluster.nodes.values()):
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("owner", ["east", "west"])
async def test_users_of_both_nodes_are_reached_once_and_counted_as_present(
    tmp_path: Path, owner: str
) -> None:
    async with Cluster(tmp_path, hubs=[push_hub()]) as cluster, BrowserService() as service:
        east, west = cluster.nodes.values()
        channel = cluster.channel_of(owner)
        for user in ("ann", "eve", "kim"):
            await register(east, cluster.store, service, user)
        for node in (east, west):
            await node.subscribe(channel, identity=Identity(user_id="ann"))
        await west.subscribe(channel, identity=Identity(user_id="eve"))
        kim = Identity(user_id="kim")
        await east.node.feature(PushFollowings).follow("acme", channel, "kim", kim)
        await pushed(east, channel)
        await idle(cluster)
        await service.got(3)
        assert sorted(each.path for each in service.received) == ["/ann", "/eve", "/kim"]

        service.received.clear()
        await pushed(west, channel, onlyAbsent=True)
        await idle(cluster)
        await service.got(1)
        assert [each.path for each in service.received] == ["/kim"]


async def test_a_key_that_one_node_makes_is_the_one_of_all(tmp_path: Path) -> None:
    async with Cluster(tmp_path, hubs=[push_hub()]) as cluster:
        east, west = cluster.nodes.values()
        made = await asyncio.gather(
            east.push_credentials.vapid_key("acme"), west.push_credentials.vapid_key("acme")
        )
        assert made[0] == made[1]
        new = await east.push_credentials.rotate("acme")
        await east.directory.changed("acme")
        assert await west.push_credentials.vapid_key("acme") == new


@pytest.mark.spec("PIPE-05", "pushes that wait")
async def test_a_push_that_waits_at_another_node_is_not_sent_when_its_publisher_was_erased(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driving, "retry_delay", lambda attempt, random, longest_seconds: 0.01)
    async with Cluster(tmp_path, hubs=[push_hub()]) as cluster, BrowserService() as service:
        east, west = cluster.nodes.values()
        await register(east, cluster.store, service, "ann")
        channel = cluster.channel_of("west")
        await west.node.feature(PushFollowings).follow(
            "acme", channel, "ann", Identity(user_id="ann")
        )
        service.answers = {"/ann": whole_answer(503, retry_after="1")}
        await pushed(east, channel)
        await service.got(1)
        await east.node.bus.broadcast(UserErased("acme", "zoe"))
        service.received.clear()
        service.answers = {}
        await idle(cluster)
        assert service.received == []
