"""A consumer that stops at a chosen point, for tests that kill it there.

    python inbox_consumer.py FILE URL TOPIC POINT COUNT

It writes COUNT messages into the table `done` of FILE and says `done N` for each, in the end
`finished`. At the point, which comes with the second message, it says `here` and waits. With the
point `naive` it has no inbox: it gets, works and acknowledges, as one would without.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import time
from pathlib import Path

from hubbub.client import Client, Inbox, connect


def stop_here() -> None:
    print("here", flush=True)
    time.sleep(600)


async def with_inbox(client: Client, file: Path, topic: str, point: str, count: int) -> None:
    async with Inbox(client, file) as inbox:
        inbox.connection.execute("CREATE TABLE IF NOT EXISTS done (text)")
        did = 0
        async for message in inbox.messages(topic, batch=3):
            if did == 1 and point == "received":
                stop_here()
            with inbox.processing(message) as transaction:
                transaction.execute("INSERT INTO done VALUES (?)", (message.data,))
                if did == 1 and point == "working":
                    stop_here()
            if did == 1 and point == "committed":
                stop_here()
            did += 1
            print("done", message.data, flush=True)
            if did == count:
                return


async def naively(client: Client, file: Path, topic: str, point: str, count: int) -> None:
    own = sqlite3.connect(file)
    own.execute("CREATE TABLE IF NOT EXISTS done (text)")
    for did in range(count):
        (message,) = await client.topics.get(topic, wait_seconds=10)
        with own:
            own.execute("INSERT INTO done VALUES (?)", (message.data,))
        if did == 1 and point == "naive":
            stop_here()
        await client.topics.ack(topic, [message.serial])
        print("done", message.data, flush=True)
    own.close()


async def main(file: Path, url: str, topic: str, point: str, count: int) -> None:
    work = naively if point.startswith("naive") else with_inbox
    async with connect(url, hub="acme") as client:
        await work(client, file, topic, point, count)
    print("finished", flush=True)


if __name__ == "__main__":
    given = sys.argv[1:]
    asyncio.run(main(Path(given[0]), given[1], given[2], given[3], int(given[4])))
