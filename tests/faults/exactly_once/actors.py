"""The applications of a campaign: `python -m faults.exactly_once.actors producer|consumer|crew …`.

Each has a database of its own, in which it commits what it sent or did together with the outbox or
inbox. Now and then it kills itself at the worst moments, by a die that the campaign's seed loads.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sqlite3
from pathlib import Path

from hubbub.client import (
    Client,
    ConnectionLost,
    Inbox,
    Options,
    Outbox,
    SubscriptionOptions,
    Unreachable,
    connect,
)
from hubbub.domain.errors import HubbubError

TOPIC = "orders"
HUB = "acme"
_LEASE_SECONDS = 2.0
_OPTIONS = Options(backoff_first=0.02, backoff_longest=0.2, restore=False, request_timeout=60)


class Fate:
    """Whether this is the moment."""

    def __init__(self, seed: int, chance: float) -> None:
        self._random = random.Random(seed)
        self._chance = chance

    def moment(self) -> None:
        if self._random.random() < self._chance:
            os.kill(os.getpid(), signal.SIGKILL)


async def produce(client: Client, file: Path, stop: Path, fate: Fate, pause: float) -> None:
    """Commits a number and the message that says it, together; then leaves the rest to the
    outbox."""
    database = sqlite3.connect(file, isolation_level=None, timeout=30)
    async with Outbox(client, file) as outbox:
        database.execute("CREATE TABLE IF NOT EXISTS sent (n INTEGER PRIMARY KEY)")
        while not stop.exists():
            database.execute("BEGIN IMMEDIATE")
            (n,) = database.execute("SELECT coalesce(max(n), 0) + 1 FROM sent").fetchone()
            database.execute("INSERT INTO sent VALUES (?)", (n,))
            outbox.put_in(database, TOPIC, {"producer": file.stem, "n": n})
            fate.moment()
            database.execute("COMMIT")
            fate.moment()
            await asyncio.sleep(pause)
        await outbox.drained()


async def consume(client: Client, file: Path, fate: Fate) -> None:
    """Applies each message once: with the position, in one transaction."""
    async with Inbox(client, file) as inbox:
        inbox.connection.execute(_APPLIED)
        reader = inbox.reader(TOPIC, file.stem, start="first", wait_seconds=1)
        async for message in reader:
            fate.moment()
            with inbox.processing(message) as transaction:
                order = message.data
                row = (order["producer"], order["n"], message.serial)
                transaction.execute("INSERT INTO applied VALUES (?, ?, ?)", row)
                fate.moment()
            fate.moment()


async def consume_together(client: Client, file: Path, fate: Fate) -> None:
    """One of several that share a subscription: at least once, in any order."""
    database = sqlite3.connect(file, isolation_level=None, timeout=30)
    database.execute(_APPLIED)
    options = SubscriptionOptions(shared=True, lease_seconds=_LEASE_SECONDS)
    await client.topics.subscribe(TOPIC, "crew", options=options, start="first")
    while True:
        try:
            await _do_some(client, database, file.stem, fate)
        except HubbubError as error:
            if not error.retry:
                raise  # else the hub is away for longer than the client waits


async def _do_some(client: Client, database: sqlite3.Connection, name: str, fate: Fate) -> None:
    messages = await client.topics.get(TOPIC, "crew", limit=20, wait_seconds=1, consumer=name)
    fate.moment()
    for message in messages:
        order = message.data
        row = (order["producer"], order["n"], message.serial)
        database.execute("INSERT INTO applied VALUES (?, ?, ?)", row)
    fate.moment()
    if messages:
        serials = [message.serial for message in messages]
        await client.topics.ack(TOPIC, serials, "crew", consumer=name)


_APPLIED = "CREATE TABLE IF NOT EXISTS applied (producer TEXT, n INTEGER, serial INTEGER)"


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["producer", "consumer", "crew"])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--stop", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--chance", type=float, required=True)
    parser.add_argument("--pause", type=float, default=0.005)
    given = parser.parse_args()
    fate = Fate(given.seed, given.chance)
    client = await connected(f"ws://127.0.0.1:{given.port}")
    try:
        if given.role == "producer":
            await produce(client, given.file, given.stop, fate, given.pause)
        elif given.role == "consumer":
            await consume(client, given.file, fate)
        else:
            await consume_together(client, given.file, fate)
    finally:
        await client.close()


async def connected(url: str) -> Client:
    """The hub may be away just now."""
    while True:
        try:
            return await connect(url, hub=HUB, options=_OPTIONS)
        except (Unreachable, ConnectionLost):
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main())
