"""The last look: what was acknowledged is there, once, and every follower has come to the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiohttp

from benchmarks.soak.ledger import Ledger, Track
from benchmarks.soak.plan import STORED
from benchmarks.soak.wire import Door

_PATIENCE_SECONDS = 60.0


async def check_everything_arrived(
    hub: Door, ledger: Ledger, tracks: Sequence[Track], stored: Sequence[str] = STORED
) -> None:
    async with aiohttp.ClientSession() as session:
        for channel in stored:
            history = [message async for message in _history(session, hub, channel)]
            check_stored(ledger, channel, history)
        for track in tracks:
            await _wait_for(session, hub, track)


def check_stored(ledger: Ledger, channel: str, history: Sequence[dict[str, Any]]) -> None:
    """Compare all that a channel holds with what its publishers were told."""
    places: dict[str, list[int]] = {}
    for expected, message in enumerate(history, 1):
        serial = int(message["channelSerial"])
        places.setdefault(message["payload"]["json"]["id"], []).append(serial)
        if serial != expected:
            ledger.problem(f"{channel} has #{serial} where #{expected} should be")
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
    ledger.counts["stored messages read back"] += len(history)


async def _history(
    session: aiohttp.ClientSession, hub: Door, channel: str
) -> AsyncIterator[dict[str, Any]]:
    serial = 0
    while True:
        page = await _page(session, hub, channel, after=serial)
        for message in page["messages"]:
            serial = int(message["channelSerial"])
            yield message
        if not page["more"]:
            return


async def _wait_for(session: aiohttp.ClientSession, hub: Door, track: Track) -> None:
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
    session: aiohttp.ClientSession, hub: Door, channel: str, **query: int
) -> dict[str, Any]:
    url = f"{hub.url}/channels/{channel}/messages"
    async with session.get(url, params=query) as answer:
        answer.raise_for_status()
        page: dict[str, Any] = await answer.json()
        return page
