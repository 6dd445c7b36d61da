"""Adapters that live for one request, on any node: input adapters that are sent requests in a form
of their own, such as signed events, and adapters that are tried out before they are added."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, cast

from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.peers import Address
from hubbub.domain.communication.settings import AdapterSettings
from hubbub.domain.errors import BadRequest, NotFound
from hubbub.engine.communication.instances import one_line
from hubbub.engine.hub import Hub
from hubbub.ports.adapters import (
    AdapterContext,
    AdapterKinds,
    HttpAnswer,
    HttpInput,
    OutputAdapter,
    PullInput,
    PushInput,
)
from hubbub.tasks import TaskSet, awaited

MakeContext = Callable[[str, str, Address | None], AdapterContext]
TakeIn = Callable[[Hub, str, PeerMessage], Coroutine[Any, Any, str]]


async def _not_yet(message: PeerMessage) -> str:
    raise NotFound("the adapter is only tried out")


class HttpInputs:
    """Works on any node: an adapter lives for one request and hands on what it reads."""

    def __init__(self, kinds: AdapterKinds, make_context: MakeContext, take_in: TakeIn) -> None:
        self._kinds = kinds
        self._make_context = make_context
        self._take_in = take_in
        self._taking_in = TaskSet(awaited)

    def serves(self, hub: Hub, adapter: str) -> bool:
        """Whether the hub has such an adapter, which itself says who may send it requests."""
        settings = hub.configuration.adapters.get(adapter)
        if settings is None:
            return False
        try:
            kind = self._kinds.find(settings.kind)
        except NotFound:
            return False
        return kind.direction == "push" and hasattr(kind.make, "receive")

    async def try_out(
        self, hub: str, adapter: str, settings: AdapterSettings, *, begin: bool
    ) -> None:
        """Make the adapter as the owner of the hub's log is going to, let one that listens `begin`,
        and end it again. Raises `BadRequest` where that fails."""
        kind = self._kinds.find(settings.kind)
        given = kind.read({**settings.settings, **settings.secrets})
        if kind.stateful:
            return  # made for an address of a peer
        try:
            async with asyncio.timeout(kind.timeout_seconds):
                made = kind.make(given, self._make_context(hub, adapter, None))
                if kind.direction != "push":
                    await cast(OutputAdapter | PullInput, made).close()
                elif begin:
                    await cast(PushInput, made).start(_not_yet)
                    await cast(PushInput, made).stop()
        except Exception as error:  # noqa: BLE001 - code of others
            reason = "it took too long" if isinstance(error, TimeoutError) else one_line(error)
            raise BadRequest(f"the adapter {adapter!r} cannot be made: {reason}") from None

    async def receive(
        self, hub: Hub, adapter: str, headers: Mapping[str, str], body: bytes
    ) -> HttpAnswer:
        """Raises `NotPermitted`, `BadRequest` and what taking a message in raises. What is
        published is taken in to its end, also where the caller is cancelled."""
        settings = hub.configuration.adapters[adapter]
        kind = self._kinds.find(settings.kind)
        given = kind.read({**settings.settings, **settings.secrets})
        made = cast(HttpInput, kind.make(given, self._make_context(hub.name, adapter, None)))

        async def publish(message: PeerMessage) -> str:
            return await asyncio.shield(self._taking_in.start(self._take_in(hub, adapter, message)))

        await made.start(publish)
        try:
            return await made.receive(headers, body)
        finally:
            await made.stop()
