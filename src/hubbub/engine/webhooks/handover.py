"""Hands messages of followed channels over to the owner of the hub's log, which delivers them to
the peers."""

from __future__ import annotations

import asyncio

from hubbub.domain.communication.following import copy_to_peer, is_of_another
from hubbub.domain.communication.requests import DeliverMessage, VerdictTold
from hubbub.domain.envelope import has_expired
from hubbub.domain.messages import Message
from hubbub.domain.webhooks import retry_delay
from hubbub.engine.outward.attempts import Expired
from hubbub.engine.webhooks.context import DriverContext
from hubbub.engine.webhooks.driven import DrivenWebhook
from hubbub.ports import randomness

_WAIT_SECONDS = 2.0
"""How long one request waits for the verdict; less than the timeout between nodes."""
_LONGEST_PAUSE_SECONDS = 30.0
CIRCULAR = "the message came through this channel before"


async def hand_over(context: DriverContext, driven: DrivenWebhook, message: Message) -> None:
    """Returns once the message has its verdict. Repeating the call, on any node, does not send the
    message twice. Raises `Expired`, and `HubbubError` if the log accepts no message now."""
    if has_expired(message, context.now()):
        raise Expired
    if is_of_another(driven.webhook, message):
        return
    copy = copy_to_peer(driven.webhook, message)
    if copy is None:
        _note(driven, VerdictTold("failed", CIRCULAR), context.now())
        return
    request = DeliverMessage(driven.webhook.hub, copy, _WAIT_SECONDS)
    asked = 0
    try:
        while True:
            told = await context.ask(request)
            assert isinstance(told, VerdictTold)
            if told.result != "open":
                break
            asked += 1
            driven.status.attempts = asked
            await asyncio.sleep(
                retry_delay(asked, randomness.fraction(), longest_seconds=_LONGEST_PAUSE_SECONDS)
            )
    finally:
        driven.status.attempts = 0
    _note(driven, told, context.now())


def _note(driven: DrivenWebhook, told: VerdictTold, now: int) -> None:
    status = driven.status
    if told.result == "met":
        status.delivered += 1
        status.last_error = None
        status.last_delivered_at = now
    else:
        status.failures += 1
        status.last_error = told.reason or told.result
