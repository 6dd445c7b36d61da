"""Messages to one peer go out in the order in which they were sent, also while the hub still asks
about other receivers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.admin import HUB
from harness.communication import CommHub, comm_hub, memory, until
from harness.running_hub import StartHub
from hubbub.domain.communication.peers import Address, CollectiveInfo, PeerInfo


class SlowDirectory:
    """Knows one peer, and answers when the gate is open."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.asked = asyncio.Event()

    async def peer_info(self, hub: str, peer: str) -> PeerInfo | None:
        self.asked.set()
        await self.gate.wait()
        return PeerInfo((Address("mail", ("slow",)),))

    async def collective_info(self, hub: str, collective: str) -> CollectiveInfo | None:
        return None

    async def authenticate(self, hub: str, peer: str, password: str) -> bool:
        return False


@pytest.mark.spec("COMM-04", "COMM-11")
@pytest.mark.parametrize("how", ["", "?transient=true"])
async def test_a_message_whose_other_receiver_is_asked_about_is_not_overtaken(
    start_hub: StartHub, how: str
) -> None:
    hub: CommHub = await comm_hub(start_hub, mail=memory())
    directory = SlowDirectory()
    hub.hub.server.communication.directories.append(directory)
    await hub.peer("ann", ("mail", "ann"))
    reply = await hub.service("PUT", f"{HUB}/routes/both", {"type": "BOTH", "route": ["slow"]})
    assert reply.status in (200, 201), reply.text
    sent = [await hub.send("ann", how=how)]
    await hub.got(1)
    sent.append(await hub.send("ann", type="BOTH", how=how))
    await asyncio.wait_for(directory.asked.wait(), 5)
    sent.append(await hub.send("ann", how=how))
    directory.gate.set()
    found = await hub.got(4)
    assert [each.message.id for each in found if each.peer == "ann"] == sent


@pytest.mark.spec("COMM-05", "COMM-11")
async def test_a_message_that_is_planned_late_is_decided_after_its_plan_is_stored(
    start_hub: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub: CommHub = await comm_hub(start_hub, mail=memory())
    store = hub.hub.server.store
    await hub.peer("ann", ("mail", "ann"))
    await hub.report(await hub.send("ann", deliveryPolicy="ACKNOWLEDGED"))
    saving, gate, save_step = asyncio.Event(), asyncio.Event(), store.save_step

    async def save_late(*arguments: Any) -> None:
        saving.set()
        await gate.wait()
        await save_step(*arguments)

    monkeypatch.setattr(store, "save_step", save_late)
    late = await hub.send("nobody")
    await asyncio.wait_for(saving.wait(), 5)
    await hub.report(await hub.send("ann", deliveryPolicy="ACKNOWLEDGED"))
    gate.set()
    assert await hub.report(late) == ("DELIVERYERROR", "unknown peer")

    async def nothing_is_open() -> bool:
        return not await store.read_busy_hubs()

    await until(nothing_is_open)
