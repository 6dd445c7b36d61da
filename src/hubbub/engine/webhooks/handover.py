"""Messages of channels, handed over to the owner of the hub's log, which brings them to the peers
that follow the channels."""

from __future__ import annotations

import asyncio
from random import random

from hubbub.domain.communication.following import copy_to_peer
from hubbub.domain.communication.requests import DeliverMessage, VerdictTold
from hubbub.domain.envelope import has_expired
from hubbub.domain.messages import Message
from hubbub.domain.webhooks import retry_delay
from hubbub.engine.outward.attempts import Expired
from hubbub.engine.webhooks.context import DriverContext
from hubbub.engine.webhooks.push import Push

_WAIT_SECONDS = 2.0
"""How long one request waits for the verdict; below the time that nodes give each other."""
_LONGEST_PAUSE_SECONDS = 30.0
CIRCULAR = "the message came through this channel before"


async def hand_over(context: DriverContext, push: Push, message: Message) -> None:
    """Until the message has its verdict. Repeating it, on whatever node, sends it no second time.
    Raises `Expired`, and `HubbubError` where the log takes no message now."""
    if has_expired(message, context.now()):
        raise Expired
    copy = copy_to_peer(push.webhook, message)
    if copy is None:
        _note(push, VerdictTold("failed", CIRCULAR), context.now())
        return
    request = DeliverMessage(push.webhook.hub, copy, _WAIT_SECONDS)
    asked = 0
    try:
        while True:
            told = await context.topic(request)
            assert isinstance(told, VerdictTold)
            if told.result != "open":
                break
            asked += 1
            push.status.attempts = asked
            await asyncio.sleep(
                retry_delay(asked, random(), longest_seconds=_LONGEST_PAUSE_SECONDS)
            )
    finally:
        push.status.attempts = 0
    _note(push, told, context.now())


def _note(push: Push, told: VerdictTold, now: int) -> None:
    status = push.status
    if told.result == "met":
        status.delivered += 1
        status.last_error = None
        status.last_delivered_at = now
    else:
        status.failures += 1
        status.last_error = told.reason or told.result
