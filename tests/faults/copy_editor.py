"""Edits a document through a local copy with a file, for tests that kill it.

    python copy_editor.py FILE URL FIRST COUNT

It appends the numbers from FIRST on, says `saved N` when one is in the file, and in the end
`settled` when the hub has all of them.
"""

from __future__ import annotations

import asyncio
import sys

from hubbub.client import Options, connect


async def main(file: str, url: str, first: int, numbers: int) -> None:
    options = Options(start_offline=True, backoff_first=0.05, backoff_longest=0.2)
    async with (
        connect(url, hub="acme", options=options) as client,
        client.document("doc:a").local(file) as copy,
    ):
        for number in range(first, first + numbers):
            edit = copy.patch({"op": "add", "path": "/items/-", "value": number})
            await edit.saved()
            print("saved", number, flush=True)
        await copy.settled()
        assert not copy.rejected
        print("settled", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
