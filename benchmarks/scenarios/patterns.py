"""A pattern that matches many channels, beside subscriptions to the same channels by name."""

from __future__ import annotations

import asyncio
from statistics import median

from benchmarks.findings import Effort, Finding, spread
from benchmarks.hub import HUB, Hubbub, hubbub
from hubbub.client import Client, Item, Options, connect

_CHANNELS = 10_000
_REACH = 1.1
_BATCH = 500
_MESSAGES = 20_000
_TURNS = 3
_SETTINGS = {"session": {"maxChannels": 20_000, "maxMatches": 20_000, "messagesPerSecond": 0}}


def patterns(effort: Effort) -> list[Finding]:
    """CPU of the server for each delivery, in turns on one server: messages to all channels, for
    who follows them by name and for who follows one pattern, each of the two first as often as the
    other. What subscribing costs is not among it."""
    count, ratios = effort.scaled(_CHANNELS), []
    with hubbub(_SETTINGS) as server:
        for _ in range(effort.rounds):
            ratios.append(asyncio.run(_ratio(server, count, effort.scaled(_MESSAGES))))
    return [
        Finding(
            f"a pattern that matches {count:,} channels: CPU per delivery against"
            " subscriptions by name",
            f"at most {_REACH:g}",
            spread(ratios),
            median(ratios) <= _REACH,
            {"ratios": ratios},
        )
    ]


async def _ratio(server: Hubbub, count: int, messages: int) -> float:
    channels = [f"room:{number}" for number in range(count)]
    async with _client(server) as speaker:
        for at in range(0, count, _BATCH):  # so that all of them are there
            await speaker.publish_many([Item(each, 0) for each in channels[at : at + _BATCH]])
        await _cost(server, speaker, channels, channels, count)  # so that all of it is warm
        by_name, by_pattern = [], []
        for _ in range(_TURNS):
            by_name.append(await _cost(server, speaker, channels, channels, messages))
            by_pattern.append(await _cost(server, speaker, ["room:*"], channels, messages))
            by_pattern.append(await _cost(server, speaker, ["room:*"], channels, messages))
            by_name.append(await _cost(server, speaker, channels, channels, messages))
    return median(by_pattern) / median(by_name)


def _client(server: Hubbub) -> Client:
    options = Options(subscription_queue=1_000_000)
    return connect(f"ws://127.0.0.1:{server.port}", hub=HUB, options=options)


async def _cost(
    server: Hubbub, speaker: Client, wanted: list[str], channels: list[str], messages: int
) -> float:
    """CPU seconds of the server for each delivery."""
    async with _client(server) as listener:
        subscription = await listener.subscribe(*wanted)
        while len(subscription.channels) < len({*wanted, *channels}):  # matches join one by one
            await asyncio.sleep(0.05)
        before = server.process.cpu_seconds()
        for at in range(0, messages, _BATCH):
            numbers = range(at, min(at + _BATCH, messages))
            items = [Item(channels[number % len(channels)], number) for number in numbers]
            await speaker.publish_many(items)
        for _ in range(messages):
            await anext(subscription)
        return (server.process.cpu_seconds() - before) / messages
