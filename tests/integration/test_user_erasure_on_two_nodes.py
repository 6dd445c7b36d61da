"""Erasing a user reaches what other nodes hold in memory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from harness.engine import Cluster, EngineNode, publish
from harness.running_hub import OPEN, open_hub
from hubbub.domain.history import HistoryQuery
from hubbub.domain.notices import MessageDelivery, Published
from hubbub.domain.permissions import Identity
from hubbub.domain.topics import EraseMessages
from hubbub.ports.bus import UserErased

pytestmark = pytest.mark.spec("PIPE-05", "SEC-02")


@pytest.mark.parametrize("owner", ["east", "west"])
@pytest.mark.parametrize("retain", [True, False])
async def test_unstored_messages_at_any_owner_are_erased_from_any_node(
    tmp_path: Path, owner: str, retain: bool
) -> None:
    """The store names the channels with retained messages; owners look through the others."""
    rules = msgspec.structs.replace(OPEN, retain=True)
    async with Cluster(tmp_path, hubs=[open_hub(rules=rules)]) as cluster:
        east, west = cluster.nodes.values()
        channel = cluster.channel_of(owner)
        writer = west.connect(identity=Identity(user_id="ann"))
        publish(writer, channel, b'"my number"', req_id=1, retain=retain)
        await writer.next(Published)
        assert await cluster.store.find_retained("acme", "ann") == [channel] * retain
        if retain:
            erased = await east.node.bus.ask(EraseMessages("acme", channel, "ann"))
            assert erased.retained == 1
        await east.node.bus.broadcast(UserErased("acme", "ann"))

        async def is_erased(node: EngineNode) -> bool:
            page = await node.node.bus.ask(HistoryQuery("acme", channel, 10))
            return [(each.publisher, each.payload) for each in page.messages] == [(None, b"null")]

        async with asyncio.timeout(10):
            for node in (east, west):
                while not await is_erased(node):
                    await asyncio.sleep(0)
        late = await east.subscribe(channel)
        assert not late.all(MessageDelivery), "nothing is retained"
