"""The last look: what was acknowledged is there, once, and every follower has come to the end."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp

from benchmarks.soak.hub import Hub
from benchmarks.soak.ledger import Ledger, Track
from benchmarks.soak.plan import STORED

_PATIENCE_SECONDS = 60.0


async def check_everything_arrived(hub: Hub, ledger: Ledger, tracks: list[Track]) -> None:
    async with aiohttp.ClientSession() as session:
        for channel in STORED:
            await _check_stored(session, hub, ledger, channel)
        for track in tracks:
            await _wait_for(session, hub, track)


async def _check_stored(
    session: aiohttp.ClientSession, hub: Hub, ledger: Ledger, channel: str
) -> None:
    places: dict[str, list[int]] = {}
    async for message in _history(session, hub, channel):
        identifier = message["payload"]["json"]["id"]
        places.setdefault(identifier, []).append(int(message["channelSerial"]))
    promised = ledger.acknowledged.get(channel, {})
    for identifier, serial in promised.items():
        if places.get(identifier) != [serial]:
            ledger.problem(
                f"{channel}: {identifier} was acknowledged as #{serial}, but is at"
                f" {places.get(identifier)}"
            )
    for identifier in places.keys() - promised.keys():
        if identifier not in ledger.uncertain or len(places[identifier]) > 1:
            ledger.problem(f"{channel}: {identifier} is at {places[identifier]}, unasked")
    ledger.counts["stored messages read back"] += sum(map(len, places.values()))


async def _history(session: aiohttp.ClientSession, hub: Hub, channel: str) -> Any:
    serial = 0
    while True:
        page = await _page(session, hub, channel, after=serial)
        for message in page["messages"]:
            serial += 1
            assert int(message["channelSerial"]) == serial, f"{channel} has a gap at #{serial}"
            yield message
        if not page["more"]:
            return


async def _wait_for(session: aiohttp.ClientSession, hub: Hub, track: Track) -> None:
    """Until the follower has seen the newest message; nobody publishes any more."""
    newest = await _page(session, hub, track.channel, limit=1)
    at_end = (newest["epoch"], int(newest["head"]))
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while (track.epoch, track.serial) != at_end:
                await asyncio.sleep(0.1)
    except TimeoutError:
        where = f"{track.epoch} #{track.serial}"
        track.ledger.problem(f"{track.who}: {track.channel} ends at {at_end}, it is at {where}")


async def _page(
    session: aiohttp.ClientSession, hub: Hub, channel: str, **query: int
) -> dict[str, Any]:
    url = f"{hub.url}/channels/{channel}/messages"
    async with session.get(url, params=query) as answer:
        answer.raise_for_status()
        page: dict[str, Any] = await answer.json()
        return page
