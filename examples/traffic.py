"""A minute of traffic in the hub `demo` of `make run`, and exactly what it was, as JSON.

    python3 examples/traffic.py                  # a minute
    python3 examples/traffic.py --seconds 5 --url ws://127.0.0.1:8000

Run `hubbub pipeline run` and `hubbub pipeline report` afterwards: they show the same numbers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections import Counter

from hubbub.client import Subscription, connect

CHANNELS = {"orders": 8, "chat": 5, "sensors": 20, "news": 1}
"""Messages a second of each channel. Each has a publisher of its own."""
READERS = 6
CONVERSATION = 4
"""Messages of a conversation in `chat`: each but the first answers the one before it."""
WORDS = (
    "late",
    "coffee",
    "lift",
    "broken",
    "orders",
    "rising",
    "storm",
    "warning",
    "lunch",
    "soon",
)


async def main() -> None:
    options = _options()
    seed = random.Random(7)
    plan = {
        channel: [_text(seed, channel, number) for number in range(rate * options.seconds)]
        for channel, rate in CHANNELS.items()
    }
    # Every reader follows a channel more than the one before it.
    follows = [list(CHANNELS)[: 1 + reader % len(CHANNELS)] for reader in range(READERS)]
    readers = await asyncio.gather(*(connect(options.url, hub=options.hub) for _ in follows))
    reading = []
    for reader, channels in zip(readers, follows, strict=True):
        subscription = await reader.subscribe(*channels)  # returns when the hub has confirmed it
        expected = sum(len(plan[channel]) for channel in channels)
        reading.append(asyncio.create_task(_read(subscription, expected)))
    await asyncio.gather(*(_publish(options, channel, plan[channel]) for channel in plan))
    received = await asyncio.wait_for(asyncio.gather(*reading), 60)
    for reader in readers:
        await reader.close()
    deliveries = sum(received, Counter())
    print(
        json.dumps(
            {
                "hub": options.hub,
                "sessions": len(readers) + len(plan),
                "subscriptions": sum(len(channels) for channels in follows),
                "messages": {channel: len(texts) for channel, texts in plan.items()},
                "bytes": {channel: sum(map(len, texts)) for channel, texts in plan.items()},
                "replies": sum(_is_reply("chat", number) for number in range(len(plan["chat"]))),
                "deliveries": dict(deliveries),
                "total messages": sum(map(len, plan.values())),
                "total deliveries": deliveries.total(),
            },
            indent=1,
        )
    )


async def _publish(options: argparse.Namespace, channel: str, texts: list[str]) -> None:
    rate = CHANNELS[channel]
    async with connect(options.url, hub=options.hub) as client:
        loop = asyncio.get_running_loop()
        began = loop.time()
        before: str | None = None
        for number, text in enumerate(texts):
            await asyncio.sleep(began + number / rate - loop.time())
            refers_to = before if _is_reply(channel, number) else None
            before = (await client.publish(channel, text, refers_to=refers_to)).id


def _is_reply(channel: str, number: int) -> bool:
    return channel == "chat" and number % CONVERSATION != 0


async def _read(subscription: Subscription, expected: int) -> Counter[str]:
    """Counts what comes, until all of it has come."""
    count: Counter[str] = Counter()
    async for message in subscription:
        count[message.channel] += 1
        if count.total() == expected:
            break
    return count


def _text(seed: random.Random, channel: str, number: int) -> str:
    return f"{channel} {number}: {' '.join(seed.choices(WORDS, k=seed.randint(3, 9)))}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="ws://127.0.0.1:8000")
    parser.add_argument("--hub", default="demo")
    parser.add_argument("--seconds", type=int, default=60)
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main())
