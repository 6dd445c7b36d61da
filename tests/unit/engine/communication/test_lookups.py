"""Look-ups of peers: read once for all who ask, many together, and never from before a change."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from hubbub.domain.communication.peers import Address, PeerInfo
from hubbub.domain.errors import StoreUnavailable
from hubbub.engine.communication.lookups import Lookups
from hubbub.engine.communication.planning import Info, NotDeliverable


class Store:
    """Answers when the gate is open."""

    def __init__(self) -> None:
        self.reads: list[list[str]] = []
        self.gate = asyncio.Event()
        self.asked: list[str] = []
        self.version = "1"
        self.away = False

    async def read(self, peers: Sequence[str]) -> list[tuple[str, PeerInfo]]:
        self.reads.append(list(peers))
        found = PeerInfo((Address("mail", (self.version,)),))
        await self.gate.wait()
        if self.away:
            raise StoreUnavailable("away")
        return [(peer, found) for peer in peers if peer != "stranger"]

    async def ask(self, peer: str) -> Info:
        self.asked.append(peer)
        return NotDeliverable("unknown peer")


def version(info: Info) -> str:
    assert isinstance(info, PeerInfo)
    return info.addresses[0].parameters[0]


@pytest.mark.spec("COMM-09")
async def test_a_peer_that_many_ask_for_is_read_once_and_later_ones_together() -> None:
    store = Store()
    lookups = Lookups(store.read, store.ask)
    asking = [asyncio.ensure_future(lookups.find([f"p{n % 3}", "stranger"])) for n in range(300)]
    await asyncio.sleep(0)
    asking[0].cancel()
    await asyncio.sleep(0)
    late = [asyncio.ensure_future(lookups.find([f"q{n}"])) for n in range(5)]
    await asyncio.sleep(0)
    store.gate.set()
    found = await asyncio.gather(*asking[1:])
    assert found[-1]["stranger"] == NotDeliverable("unknown peer")
    await asyncio.gather(*late)
    assert store.reads == [["p0", "stranger", "p1", "p2"], [f"q{n}" for n in range(5)]]
    assert store.asked == ["stranger"]


@pytest.mark.spec("COMM-09")
async def test_who_asks_after_a_change_does_not_get_what_was_read_before_it() -> None:
    store = Store()
    lookups = Lookups(store.read, store.ask)
    before = asyncio.ensure_future(lookups.find(["ann"]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    store.version = "2"
    lookups.forget(["ann"])
    after = asyncio.ensure_future(lookups.find(["ann"]))
    store.gate.set()
    assert version((await before)["ann"]) == "1"
    assert version((await after)["ann"]) == "2"


@pytest.mark.spec("COMM-09")
async def test_a_store_that_is_away_fails_all_who_asked_and_none_who_ask_later() -> None:
    store = Store()
    lookups = Lookups(store.read, store.ask)
    store.away = True
    store.gate.set()
    failed = await asyncio.gather(
        *(lookups.find(["ann"]) for _ in range(3)), return_exceptions=True
    )
    assert [type(each) for each in failed] == [StoreUnavailable] * 3
    store.away = False
    assert version((await lookups.find(["ann"]))["ann"]) == "1"
