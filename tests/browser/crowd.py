"""Sessions that follow channels and stay: `crowd.py URL HUB TOKEN SESSIONS CHANNELS PREFIX`. Each
session has channels of its own, `PREFIX:<number>`, and all share `PREFIX:all`."""

from __future__ import annotations

import asyncio
import sys

from hubbub.client import connect

BATCH = 500


async def main(url: str, hub: str, token: str, sessions: int, channels: int, prefix: str) -> None:
    clients = []
    for session in range(sessions):
        client = await connect(url, hub=hub, token=token or None)
        names = [f"{prefix}:{session * channels + each:05}" for each in range(channels)]
        names.append(f"{prefix}:all")
        for start in range(0, len(names), BATCH):
            await client.subscribe(*names[start : start + BATCH])
        clients.append(client)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(
        main(
            sys.argv[1],
            sys.argv[2],
            sys.argv[3],
            int(sys.argv[4]),
            int(sys.argv[5]),
            sys.argv[6],
        )
    )
