"""The live instances of a hub's adapters: created on demand, closed when unused."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from hubbub.domain.communication.peers import Address, PeerInfo
from hubbub.domain.communication.requests import AdapterStatus
from hubbub.domain.communication.settings import AdapterSettings
from hubbub.domain.errors import HubbubError, NotFound
from hubbub.ports.adapters import (
    Adapter,
    AdapterContext,
    AdapterFailed,
    AdapterKind,
    AdapterKinds,
    OutputAdapter,
)
from hubbub.ports.clock import Clock
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

IDLE_SECONDS = 600.0
MakeContext = Callable[[str, str, Address | None], AdapterContext]
"""Creates the context of a hub's adapter by name; a per-peer instance also gets the peer's
address."""


def one_line(error: object) -> str:
    """The text of an adapter's exception, made safe to store and show: printable, at most 500
    characters."""
    shown = str(error)[:500]
    return "".join(letter if letter.isprintable() else " " for letter in shown)


class AdapterFigures:
    """Counters and the last error of one adapter."""

    __slots__ = ("delivered", "failed", "last_error", "last_error_at", "waiting")

    def __init__(self) -> None:
        self.delivered = self.failed = self.waiting = self.last_error_at = 0
        self.last_error = ""

    def note(self, error: str | None, now: float) -> None:
        if error is None:
            self.delivered += 1
        else:
            self.failed += 1
            self.last_error, self.last_error_at = one_line(error), int(now * 1000)


class _Instance:
    """An instance shared by all peers, or the instance for one address of one peer."""

    __slots__ = ("adapter", "address", "busy", "is_retired", "peer", "used_at")

    def __init__(
        self, adapter: OutputAdapter, peer: str, address: Address | None, now: float
    ) -> None:
        self.adapter = adapter
        self.peer = peer
        self.address = address
        self.used_at = now
        self.busy = 0
        """Pushes in progress."""
        self.is_retired = False
        """The instance closes when its last push ends."""


class OutputInstance:
    """An output adapter of a hub, with one shared instance or one per peer address."""

    def __init__(
        self,
        hub: str,
        name: str,
        settings: AdapterSettings,
        kind: AdapterKind[Any],
        make_context: MakeContext,
        clock: Clock,
        figures: AdapterFigures,
        close: Callable[[list[OutputAdapter]], None],
    ) -> None:
        self.name = name
        self.settings = settings
        self.kind = kind
        self.figures = figures
        self._hub = hub
        self._make_context = make_context
        self._clock = clock
        self._close = close
        self._values = kind.read({**settings.settings, **settings.secrets})
        self._shared: _Instance | None = None
        self._of_peers: dict[tuple[str, Address], _Instance] = {}
        if not kind.stateful:
            self._shared = _Instance(self._make(None), "", None, clock.monotonic())

    def _make(self, address: Address | None) -> OutputAdapter:
        context = self._make_context(self._hub, self.name, address)
        return cast(OutputAdapter, self.kind.make(self._values, context))

    @property
    def instances(self) -> int:
        return len(self._of_peers) + (self._shared is not None)

    async def use(self, peer: str, address: Address, push: Callable[[OutputAdapter], Any]) -> None:
        """Pushes through the instance for this peer. Raises the errors of `push`, and
        `AdapterFailed` if no instance can be created."""
        found = self._shared or self._of_peer(peer, address)
        found.busy += 1
        try:
            await push(found.adapter)
        finally:
            found.busy -= 1
            found.used_at = self._clock.monotonic()
            if found.is_retired and not found.busy:
                self._close([found.adapter])

    def is_made(self, peer: str, address: Address) -> bool:
        """Whether an instance for the peer's address exists or can be created now."""
        if self._shared is None:
            try:
                self._of_peer(peer, address)
            except AdapterFailed as error:
                self.figures.note(str(error), self._clock.now())
                return False
        return True

    def _of_peer(self, peer: str, address: Address) -> _Instance:
        """Returns the instance for a peer's address. Raises `AdapterFailed`."""
        key = (peer, address)
        found = self._of_peers.get(key)
        if found is None:
            try:
                made = self._make(address)
            except Exception as error:  # noqa: BLE001 - code of others
                raise AdapterFailed(f"the adapter could not be made: {error}") from None
            found = self._of_peers[key] = _Instance(made, peer, address, self._clock.monotonic())
        return found

    def take_idle(self) -> list[OutputAdapter]:
        """Removes and returns instances that were not used for a while."""
        limit = self._clock.monotonic() - IDLE_SECONDS
        return self._take(lambda each: each.used_at < limit)

    def take_unneeded(self, peer: str, info: PeerInfo | None) -> list[OutputAdapter]:
        """Removes and returns instances for addresses that the peer no longer has."""
        kept = info.addresses if info is not None else ()
        return self._take(lambda each: each.peer == peer and each.address not in kept)

    def _take(self, chosen: Callable[[_Instance], bool]) -> list[OutputAdapter]:
        taken = [key for key, each in self._of_peers.items() if not each.busy and chosen(each)]
        return [self._of_peers.pop(key).adapter for key in taken]

    def retire(self) -> None:
        """Closes each instance as soon as none of its pushes is running."""
        found = [*self._of_peers.values(), *([self._shared] if self._shared is not None else [])]
        self._of_peers.clear()
        self._shared = None
        for each in found:
            each.is_retired = True
        self._close([each.adapter for each in found if not each.busy])


class Instances:
    """The adapters of one hub at the owner of its log."""

    def __init__(
        self, hub: str, kinds: AdapterKinds, make_context: MakeContext, clock: Clock
    ) -> None:
        self._hub = hub
        self._kinds = kinds
        self._make_context = make_context
        self._clock = clock
        self._closing = TaskSet()
        self.outputs: dict[str, OutputInstance] = {}
        """Adapters that new messages may use."""
        self._removed: dict[str, OutputInstance] = {}
        self._internal: dict[str, OutputInstance] = {}
        self.inputs: dict[str, tuple[AdapterSettings, AdapterKind[Any]]] = {}
        self.figures: dict[str, AdapterFigures] = {}
        self._changes: dict[str, asyncio.Event] = {}
        """Set when the named adapter is replaced; present only while somebody waits for it."""
        self._problems: dict[str, str] = {}
        """Why a configured adapter cannot be used, by name."""

    def figures_of(self, name: str) -> AdapterFigures:
        return self.figures.setdefault(name, AdapterFigures())

    def configure(self, adapters: Mapping[str, AdapterSettings]) -> None:
        """Creates new and changed adapters, and removes those no longer configured."""
        self._problems.clear()
        for name in [*self.outputs]:
            if adapters.get(name) != self.outputs[name].settings:
                self._remove(name, replaced=self._is_output(adapters.get(name)))
        inputs: dict[str, tuple[AdapterSettings, AdapterKind[Any]]] = {}
        for name, settings in adapters.items():
            try:
                kind = self._kinds.find(settings.kind)
                if kind.direction != "output":
                    kind.read({**settings.settings, **settings.secrets})
                    inputs[name] = (settings, kind)
                elif name not in self.outputs:
                    self.outputs[name] = OutputInstance(
                        self._hub,
                        name,
                        settings,
                        kind,
                        self._make_context,
                        self._clock,
                        self.figures_of(name),
                        self._close,
                    )
                    self._changes.pop(name, asyncio.Event()).set()
            except HubbubError as error:
                self._problems[name] = error.message
            except Exception as error:  # noqa: BLE001 - code of others
                logger.warning("hub %s: adapter %s cannot be created: %s", self._hub, name, error)
                self._problems[name] = one_line(f"cannot be made: {error}")
        self.inputs = inputs

    def _is_output(self, settings: AdapterSettings | None) -> bool:
        """True also for a kind that the server lacks: its queue waits until the kind is
        available."""
        try:
            return settings is not None and self._kinds.find(settings.kind).direction == "output"
        except NotFound:
            return True

    def add_internal(self, kinds: Mapping[str, AdapterKind[Any]]) -> None:
        """Adds adapters that are not in the settings; they have no context."""
        for name in [each for each in self._internal if each not in kinds]:
            del self._internal[name]
        for name, kind in kinds.items():
            self._internal[name] = OutputInstance(
                self._hub,
                name,
                AdapterSettings(kind.name),
                kind,
                self._make_context,
                self._clock,
                self.figures_of(name),
                self._close,
            )

    def make_input(self, name: str) -> Adapter:
        """Creates an input adapter. Raises the errors of its kind."""
        settings, kind = self.inputs[name]
        values = kind.read({**settings.settings, **settings.secrets})
        made: Adapter = kind.make(values, self._make_context(self._hub, name, None))
        return made

    def serves(self, peer: str, address: Address) -> bool:
        """Whether new messages to the peer may use this address."""
        output = self.outputs.get(address.adapter)
        return output is not None and output.is_made(peer, address)

    def find(self, name: str) -> OutputInstance | None:
        """Returns the adapter; also a removed one, while deliveries wait for it."""
        return self.outputs.get(name) or self._internal.get(name) or self._removed.get(name)

    async def changed(self, name: str, seconds: float) -> None:
        """Waits until the adapter is replaced, at most `seconds`."""
        change = self._changes.setdefault(name, asyncio.Event())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await change.wait()

    def problem(self, name: str) -> str | None:
        """Why a configured adapter cannot be used, if so."""
        return self._problems.get(name)

    def _remove(self, name: str, replaced: bool) -> None:
        """A replaced adapter accepts nothing new: its queue continues with the replacement."""
        gone = self.outputs.pop(name)
        if replaced or not gone.figures.waiting:
            gone.retire()
        else:
            self.drained(name)  # of one that was removed before, this one takes the queue over
            self._removed[name] = gone

    def drained(self, name: str) -> None:
        """Called when no delivery waits for this adapter."""
        removed = self._removed.pop(name, None)
        if removed is not None:
            removed.retire()

    def peer_changed(self, peer: str, info: PeerInfo | None) -> None:
        for output in self.outputs.values():
            self._close(output.take_unneeded(peer, info))

    def sweep(self) -> None:
        for output in self.outputs.values():
            self._close(output.take_idle())

    def _close(self, adapters: list[OutputAdapter]) -> None:
        for adapter in adapters:
            self._closing.start(self._close_one(adapter))

    async def _close_one(self, adapter: OutputAdapter) -> None:
        try:
            async with asyncio.timeout(10):
                await adapter.close()
        except Exception as error:  # noqa: BLE001 - code of others
            logger.warning("hub %s: an adapter did not close: %s", self._hub, error)

    async def close(self) -> None:
        for output in (*self.outputs.values(), *self._removed.values()):
            output.retire()
        self.outputs.clear()
        self._removed.clear()
        await self._closing.settle()

    def describe(self) -> tuple[AdapterStatus, ...]:
        found = []
        for name in sorted({*self.outputs, *self._removed, *self.inputs, *self._problems}):
            output = self.find(name)
            direction = "output" if output is not None else ""
            if name in self.inputs:
                direction = self.inputs[name][1].direction
            figures = self.figures_of(name)
            status = AdapterStatus(
                name,
                direction,
                figures.waiting,
                figures.delivered,
                figures.failed,
                output.instances if output is not None else 0,
                figures.last_error,
                figures.last_error_at,
            )
            if name in self._problems:
                status = msgspec.structs.replace(status, last_error=self._problems[name])
            found.append(status)
        return tuple(found)
