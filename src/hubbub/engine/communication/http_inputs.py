"""Adapters that live for one request, on any node: input adapters that receive requests in formats
of their own, such as signed events, and trial runs of adapters before they are added."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, cast

from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.peers import Address
from hubbub.domain.communication.settings import AdapterSettings
from hubbub.domain.errors import BadRequest, NotFound
from hubbub.engine.communication.instances import one_line
from hubbub.engine.hub import Hub
from hubbub.ports.adapters import (
    AdapterContext,
    AdapterFailed,
    AdapterKinds,
    HttpAnswer,
    HttpInput,
    OutputAdapter,
    PullInput,
    PushInput,
    TemporaryFailure,
)
from hubbub.tasks import TaskSet, awaited

MakeContext = Callable[[str, str, Address | None], AdapterContext]
TakeIn = Callable[[Hub, str, PeerMessage], Coroutine[Any, Any, str]]


async def _not_yet(message: PeerMessage) -> str:
    raise NotFound("the adapter is only tried out")


async def _begin_and_close(made: PullInput) -> None:
    """Starts an adapter briefly, so that its source keeps messages from now on. An unreachable
    source is asked again later."""
    begin = getattr(made, "begin", None)
    if begin is not None:
        with suppress(AdapterFailed, TemporaryFailure):
            await begin()
    await made.close()


class HttpInputs:
    """Serves requests to input adapters on any node: an adapter lives for one request and passes on
    the messages that it reads."""

    def __init__(self, kinds: AdapterKinds, make_context: MakeContext, take_in: TakeIn) -> None:
        self._kinds = kinds
        self._make_context = make_context
        self._take_in = take_in
        self._taking_in = TaskSet(awaited)

    def serves(self, hub: Hub, adapter: str) -> bool:
        """Whether the hub has such an adapter; the adapter itself authenticates its callers."""
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
        """Creates the adapter as the owner of the hub's log would, lets a listening one `begin`,
        and closes it. Raises `BadRequest` if that fails."""
        kind = self._kinds.find(settings.kind)
        given = kind.read({**settings.settings, **settings.secrets})
        if kind.stateful:
            return  # made for an address of a peer
        try:
            async with asyncio.timeout(kind.timeout_seconds):
                made = kind.make(given, self._make_context(hub, adapter, None))
                if kind.direction == "pull":
                    await _begin_and_close(cast(PullInput, made))
                elif kind.direction == "output":
                    await cast(OutputAdapter, made).close()
                elif begin:
                    await cast(PushInput, made).start(_not_yet)
                    await cast(PushInput, made).stop()
        except Exception as error:  # noqa: BLE001 - code of others
            reason = "it took too long" if isinstance(error, TimeoutError) else one_line(error)
            raise BadRequest(f"the adapter {adapter!r} cannot be made: {reason}") from None

    async def receive(
        self, hub: Hub, adapter: str, headers: Mapping[str, str], body: bytes
    ) -> HttpAnswer:
        """Raises `NotPermitted`, `BadRequest` and the errors of accepting a message. Once begun,
        accepting a message completes even if the caller is cancelled."""
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
