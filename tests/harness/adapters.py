"""Adapters outside of a hub: the context they work in, with real connections, and deliveries."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from harness.clock import FakeClock
from hubbub.connectors.adapters.dial import CheckedDial
from hubbub.connectors.http_out import HttpOut
from hubbub.connectors.resolving import Resolver
from hubbub.domain.callbacks import Reach
from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.peers import Address
from hubbub.domain.errors import HubbubError
from hubbub.domain.push.options import PushOptions
from hubbub.engine.outward.gate import OutgoingGate
from hubbub.engine.outward.limits import WebhookLimits
from hubbub.ports.adapters import Adapter, AdapterContext, Delivery, Pulled, Pushed, declared


@dataclass(slots=True)
class KeptChannels:
    """Channels in memory: `ports.adapters.HubChannels` without a hub."""

    published: dict[tuple[str, str], PeerMessage] = field(default_factory=dict)
    waiting: dict[str, list[PeerMessage]] = field(default_factory=dict)
    error: HubbubError | None = None

    async def publish(self, channel: str, message: PeerMessage, key: str) -> None:
        if self.error is not None:
            raise self.error
        self.published[channel, key] = message

    async def follow(self, channel: str, reader: str) -> None:
        if self.error is not None:
            raise self.error

    async def take(self, channel: str, reader: str) -> Pulled | None:
        if self.error is not None:
            raise self.error
        messages = self.waiting.get(channel)
        return Pulled(messages[0], messages[0].id) if messages else None

    async def acknowledge(self, channel: str, reader: str, receipt: object) -> None:
        kept = [each for each in self.waiting[channel] if each.id != receipt]
        self.waiting[channel] = kept


@dataclass(slots=True)
class KeptDevices:
    """Devices whose push services answer as they are told."""

    answers: dict[str, list[Pushed]] = field(default_factory=dict)
    pushed: list[tuple[str, PushOptions, str]] = field(default_factory=list)

    async def push(self, user_id: str, options: PushOptions, message_id: str) -> list[Pushed]:
        self.pushed.append((user_id, options, message_id))
        return self.answers.get(user_id, [])


@contextlib.asynccontextmanager
async def adapter_context(
    reach: Reach = "loopback", files: Path | None = None, name: str = "tried"
) -> AsyncIterator[AdapterContext]:
    sender, resolver = HttpOut(), Resolver()
    limits = WebhookLimits(breaker_failures=1000)
    try:
        yield AdapterContext(
            hub="acme",
            name=name,
            outgoing=OutgoingGate(sender, limits),
            dial=CheckedDial(resolver, "acme", lambda: reach),
            channels=KeptChannels(),
            devices=KeptDevices(),
            clock=FakeClock(),
            reach_of_hub=lambda: reach,
            files=files,
        )
    finally:
        await sender.close()
        await resolver.close()


def make_adapter(kind: str, settings: dict[str, Any], context: AdapterContext) -> Adapter:
    found = declared().find(kind)
    return found.make(found.read(settings), context)


def message(**fields: Any) -> PeerMessage:
    defaults = {"id": "m-1", "type": "BUILD", "subtype": "FAILED", "sender": "ci"}
    return PeerMessage(**{**defaults, "receiver": "ann", "content": "it is red", **fields})


def delivery(
    *parameters: str, key: str = "key-1", adapter: str = "tried", **fields: Any
) -> Delivery:
    sent = message(**fields)
    return Delivery("acme", sent, sent.receiver, Address(adapter, parameters), key)


def changed(sent: Delivery, **fields: Any) -> Delivery:
    return msgspec.structs.replace(sent, **fields)
