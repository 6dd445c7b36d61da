"""Verification of intent (WebSub): a callback must confirm the subscription requested in its name.

Pending verifications are stored with the webhook, so that they continue after a restart."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Collection

import msgspec

from hubbub.domain.errors import HubbubError
from hubbub.domain.names import partition_of
from hubbub.domain.topics import (
    SubscribeTopic,
    WebhookChanged,
)
from hubbub.domain.webhooks import PendingVerification, Webhook
from hubbub.engine.webhooks.context import DriverContext
from hubbub.engine.webhooks.driven import key_of
from hubbub.engine.webhooks.ending import deny, end_webhook
from hubbub.engine.webhooks.requests import with_query
from hubbub.ports import randomness
from hubbub.ports.outgoing import SendFailed

logger = logging.getLogger(__name__)

_CHALLENGE_BYTES = 24
_TRIES = 3
_MAX_ANSWER_BYTES = 4096


class Verifier:
    """Verifies pending requests, one at a time per webhook; a newer request replaces an older
    one."""

    def __init__(self, context: DriverContext) -> None:
        self._context = context
        self._tasks: dict[tuple[str, str], tuple[PendingVerification, int, asyncio.Task[None]]] = {}

    def start(self, webhook: Webhook) -> None:
        assert webhook.pending is not None
        key = (webhook.hub, webhook.id)
        known = self._tasks.get(key)
        if known is not None:
            if known[0] == webhook.pending:
                return
            known[2].cancel()
        task = asyncio.get_running_loop().create_task(self._verify(webhook, webhook.pending))
        partition = partition_of(webhook.hub, webhook.channel)
        self._tasks[key] = (webhook.pending, partition, task)
        task.add_done_callback(lambda ended: self._ended(key, ended))

    def _ended(self, key: tuple[str, str], task: asyncio.Task[None]) -> None:
        known = self._tasks.get(key)
        if known is not None and known[2] is task:
            del self._tasks[key]
        if not task.cancelled() and task.exception() is not None:
            logger.error("a verification failed", exc_info=task.exception())

    def cancel(self, partitions: Collection[int]) -> None:
        """Stops the verifications of these partitions; their next driver continues them."""
        for _, partition, task in list(self._tasks.values()):
            if partition in partitions:
                task.cancel()

    def cancel_hub(self, hub: str) -> None:
        """Stops the verifications of a hub that is suspended."""
        for (of_hub, _), (_, _, task) in list(self._tasks.items()):
            if of_hub == hub:
                task.cancel()

    async def _verify(self, webhook: Webhook, pending: PendingVerification) -> None:
        wanted = await self._ask(webhook, pending)
        try:
            await self._conclude(webhook, pending, wanted)
        except HubbubError as error:  # the request is still on disk, for the next start
            logger.warning("webhook %s could not be confirmed: %s", webhook.id, error)

    async def _ask(self, webhook: Webhook, pending: PendingVerification) -> bool:
        """Returns whether the callback confirms. An unreachable callback is asked a few times."""
        challenge = randomness.token_urlsafe(_CHALLENGE_BYTES)
        fields = {
            "hub.mode": pending.mode,
            "hub.topic": webhook.topic,
            "hub.challenge": challenge,
        }
        if pending.mode == "subscribe":
            fields["hub.lease_seconds"] = str(pending.lease_seconds)
        url = with_query(webhook.callback, fields)
        for number in range(_TRIES):
            if number:
                await asyncio.sleep(self._context.limits.first_retry_seconds * 2**number)
            try:
                answer = await self._context.get(
                    "webhook", webhook.hub, url, (("Accept", "*/*"),), _MAX_ANSWER_BYTES
                )
            except SendFailed as error:
                logger.info("webhook %s: %s", webhook.id, error)
                if error.word in ("refused_address", "too_large"):
                    return False
            except HubbubError:
                return False
            else:
                if answer.status < 500:
                    said = hmac.compare_digest(answer.body.strip(), challenge.encode())
                    return 200 <= answer.status < 300 and said
        return False

    async def _conclude(self, webhook: Webhook, pending: PendingVerification, wanted: bool) -> None:
        current = await self._context.store.read_webhook(webhook.hub, webhook.id)
        if current is None or current.pending != pending:
            return  # something newer holds
        if not wanted:
            await self._refuse(current)
        elif pending.mode == "unsubscribe":
            await end_webhook(self._context.ask, self._context.store, current)
        else:
            await self._activate(current, pending)
        await self._context.ask(WebhookChanged(current.hub, current.channel, current.id))

    async def _refuse(self, webhook: Webhook) -> None:
        """The callback did not confirm: deletes a pending webhook, and leaves an active one
        unchanged unless its lease has to be shortened."""
        context = self._context
        if webhook.state == "pending":
            await context.store.delete_webhook(webhook.hub, webhook.id)
        elif context.exceeds_longest_lease(webhook):
            if not await end_webhook(context.ask, context.store, webhook):
                return
            hub = context.configuration_of(webhook.hub)
            longest = int(context.limits.max_lease_seconds)
            reason = f"the hub's longest lease is {longest} seconds now; subscribe again"
            about = (hub, webhook.callback, webhook.topic, reason)
            await deny(context.outgoing, context.limits, *about)
        else:
            await self._context.store.save_webhook(msgspec.structs.replace(webhook, pending=None))

    async def _activate(self, webhook: Webhook, pending: PendingVerification) -> None:
        active = msgspec.structs.replace(
            webhook,
            state="active",
            secret=pending.secret,
            algorithm=pending.algorithm,
            expires_at=self._context.now() + 1000 * pending.lease_seconds,
            pending=None,
        )
        await self._context.ask(SubscribeTopic(key_of(active), None, "new"))
        await self._context.store.save_webhook(active)
