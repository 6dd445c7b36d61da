"""Pushes that are asked for directly, without a message in a channel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from hubbub.domain.push.options import PushOptions
from hubbub.domain.push.tokens import PushToken
from hubbub.engine.push.counting import HubPushCounters
from hubbub.engine.push.queues import HubQueue
from hubbub.engine.push.sending import Attempt


class Pusher(Protocol):
    """The driver of pushes, for whoever asks for a push."""

    @property
    def counters(self) -> Mapping[str, HubPushCounters]:
        """Counters of pushes, by hub."""

    @property
    def queues(self) -> Mapping[str, HubQueue]:
        """Queues of pushes, by hub."""

    def push(self, hub: str, users: Sequence[str], options: PushOptions) -> str:
        """Sends a push to the devices of these users. Returns the id that the push has in the
        journal."""

    async def test(
        self,
        hub: str,
        tokens: Sequence[PushToken],
        options: PushOptions,
        message_id: str | None = None,
    ) -> list[Attempt]:
        """One attempt for each token, at once. `message_id`: what it is about, for the device and
        the journal. Raises `StoreUnavailable`."""
