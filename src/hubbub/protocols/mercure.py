"""Mercure: updates as server-sent events, and the forms of publishers."""

from __future__ import annotations

import re
from typing import Final

from hubbub.domain.mercure.updates import retry_of
from hubbub.domain.messages import Message

_LINES: Final = re.compile(b"\r\n|\r|\n")


def update_event(message: Message, update_id: str | None) -> bytes:
    """The update as an event. Without an id, for updates that are not stored, clients keep the id
    of the one before."""
    lines = [] if update_id is None else [b"id: " + update_id.encode()]
    if message.event:
        lines.append(b"event: " + message.event.encode())
    retry = retry_of(message)
    if retry is not None:
        lines.append(b"retry: %d" % retry)
    lines += [b"data: " + line for line in _LINES.split(message.payload)]
    return b"\n".join(lines) + b"\n\n"
