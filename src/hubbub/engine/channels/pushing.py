"""What the owner of channels knows of push."""

from __future__ import annotations

from typing import Protocol

from hubbub.domain.messages import Message
from hubbub.domain.push.options import PushOptions


class PushSink(Protocol):
    def published(self, message: Message, options: PushOptions | None) -> None:
        """A message marked `push`, which the channel's rules allow, is as durable as it will be.
        Never blocks, never raises."""

    def hub_changed(self, hub: str) -> None:
        """The settings of a hub or its revocations changed, or it is gone."""

    def channel_changed(self, hub: str, channel: str) -> None:
        """Who may read a channel changed."""

    def erased(self, hub: str, user_id: str) -> None:
        """A user was erased: what waits with content of the user, or for the user's devices, is
        not sent."""


class NoPush:
    """Where nothing is pushed."""

    def published(self, message: Message, options: PushOptions | None) -> None:
        pass

    def hub_changed(self, hub: str) -> None:
        pass

    def channel_changed(self, hub: str, channel: str) -> None:
        pass

    def erased(self, hub: str, user_id: str) -> None:
        pass
