"""Notification callbacks over HTTP, as an output adapter: with its queue, its attempts and its dead
letters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from hubbub.domain.callbacks import Reach
from hubbub.domain.communication.settings import CallbackSettings
from hubbub.domain.communication.wire import to_wire
from hubbub.ports.adapters import (
    AdapterFailed,
    AdapterKind,
    Delivery,
    OutputAdapter,
    TemporaryFailure,
)
from hubbub.ports.outgoing import USER_AGENT, HttpRequest, Outgoing, SendFailed

_LATER = (408, 425, 429)
_SECONDS = 10.0


class NoSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of an adapter kind without settings."""


def callback_kind(make: Callable[..., OutputAdapter]) -> AdapterKind[Any]:
    return AdapterKind("callback", "output", NoSettings, make)


class CallbackOutput:
    """Posts messages to the URL of a callback."""

    def __init__(
        self, hub: str, callback: CallbackSettings, reach: Reach, outgoing: Outgoing
    ) -> None:
        self._hub = hub
        self._callback = callback
        self._reach = reach
        self._outgoing = outgoing

    async def push(self, delivery: Delivery) -> None:
        request = HttpRequest(
            self._hub,
            "POST",
            self._callback.url,
            (
                ("User-Agent", USER_AGENT),
                ("Content-Type", "application/json"),
                ("Idempotency-Key", delivery.key),
                *self._callback.headers.items(),
            ),
            msgspec.json.encode(to_wire(delivery.message)),
            _SECONDS,
        )
        try:
            answer = await self._outgoing.send("adapter", request, self._reach)
        except SendFailed as error:
            if error.word == "refused_address":
                raise AdapterFailed(error.message) from None
            raise TemporaryFailure(error.message) from None
        if answer.status >= 500 or answer.status in _LATER:
            raise TemporaryFailure(f"the callback answered {answer.status}")
        if not 200 <= answer.status < 300:
            raise AdapterFailed(f"the callback answered {answer.status}")

    async def close(self) -> None:
        pass
