"""A producer with an outbox that stops at a chosen point, for tests that kill it there.

    python outbox_producer.py FILE URL TOPIC POINT FIRST COUNT

It puts the numbers from FIRST on, the third of them far too large if POINT is about refusals, and
says so on its output: `put N`, in the end `drained`. At the point it says `here` and waits.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from hubbub.client import Options, Outbox, connect
from hubbub.client.connection.conversation import Answered, Conversation
from hubbub.client.outbox import tables
from hubbub.client.outbox.lane import Lane
from hubbub.client.outbox.sender import Sender
from hubbub.client.outbox.tables import QueuedMessage
from hubbub.domain.notices import PublishResult
from hubbub.domain.requests import PublishItem

MONSTER = "x" * 5000


def stop_here() -> None:
    print("here", flush=True)
    time.sleep(600)


def after(work: Callable[..., Any], *arguments: Any) -> Any:
    result = work(*arguments)
    stop_here()
    return result


def before(work: Callable[..., Any], *arguments: Any) -> Any:
    stop_here()
    return work(*arguments)


def replace(name: str, function: Callable[..., Any]) -> None:
    setattr(tables, name, function)


def arrange(point: str, target: str) -> None:
    """Make the program stop at the point, when it comes to the target message."""
    if point == "writing":  # in the file, not committed
        add = tables.add

        def adding(file: Any, draft: PublishItem) -> int:
            stopping = draft.payload.decode() == target
            return int(after(add, file, draft)) if stopping else add(file, draft)

        replace("add", adding)
    elif point in ("sending", "sent"):  # committed; not sent, or not answered
        put = Conversation.put

        async def putting(
            self: Conversation, items: Iterable[tuple[PublishItem, Answered]]
        ) -> None:
            frame = list(items)
            found = any(item.payload.decode() == target for item, _ in frame)
            if found and point == "sending":
                stop_here()
            await put(self, frame)
            if found:
                stop_here()

        Conversation.put = putting  # type: ignore[method-assign]
    elif point == "answered":  # confirmed, and the file does not know
        answered = Lane._answered

        def answering(
            self: Lane,
            message: QueuedMessage,
            under_way: dict[int, QueuedMessage],
            result: PublishResult,
        ) -> None:
            if message.item.payload.decode() == target:
                stop_here()
            answered(self, message, under_way, result)

        Lane._answered = answering  # type: ignore[method-assign]
    elif point == "forgetting":  # deleted, not committed
        confirm = tables.confirm
        replace("confirm", lambda file, places: after(confirm, file, places))
    elif point == "refused":  # the hub said so, the file does not know
        refuse = tables.refuse
        replace("refuse", lambda file, place, error: before(refuse, file, place, error))
    elif point == "refusing":  # the sequence handed on, not committed
        refuse = tables.refuse
        replace("refuse", lambda file, place, error: after(refuse, file, place, error))
    elif point == "handed-on":  # the same, committed
        told = Sender.refused_by_hub
        Sender.refused_by_hub = (  # type: ignore[method-assign]
            lambda self, refusal, error: before(told, self, refusal, error)
        )


async def main(file: Path, url: str, topic: str, point: str, first: int, count: int) -> None:
    arrange(point, str(first + count - 1))
    monster = first + 2 if point in ("refused", "refusing", "handed-on") else None
    options = Options(backoff_first=0.01, backoff_longest=0.05)
    async with connect(url, hub="acme", options=options) as client, Outbox(client, file) as outbox:
        for number in range(first, first + count):
            await outbox.put(topic, MONSTER if number == monster else str(number))
            print("put", number, flush=True)
        await outbox.drained()
        print("drained", flush=True)


if __name__ == "__main__":
    given = sys.argv[1:]
    asyncio.run(main(Path(given[0]), given[1], given[2], given[3], int(given[4]), int(given[5])))
