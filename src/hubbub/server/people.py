"""Peers, callbacks and adapters as Python objects, for a program that runs the hub in its own
process: `server.people`."""

from __future__ import annotations

from typing import Any

import msgspec

from hubbub.domain.communication.settings import AdapterSettings
from hubbub.domain.errors import InvalidAttribute
from hubbub.domain.rules import ADAPTERS
from hubbub.engine.communication.driver import CommunicationDriver
from hubbub.engine.directory import Directory
from hubbub.ports.adapters import (
    Adapter,
    AdapterKind,
    OutputAdapter,
    PullInput,
    PushInput,
    declared_kind,
)
from hubbub.ports.directories import NotificationCallback, PeerDirectory

_INSTANCE = "instance:"
"""The prefix of the kind of an adapter that is an object of the program."""


class NoInstanceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An adapter that the program made has no settings."""


class PeopleInProcess:
    """Objects are asked and called in the process in which the log of the hub is owned: run one
    node, or register them at each. They are not stored; register them again after each start."""

    def __init__(self, driver: CommunicationDriver, directory: Directory) -> None:
        self._driver = driver
        self._directory = directory
        self._callbacks: dict[str, NotificationCallback] = {}
        self._numbers = 0

    # -- callbacks ------------------------------------------------------------------------------

    def add_directory(self, directory: PeerDirectory) -> None:
        """Asks the directory for peers, collectives and passwords that the store does not know, in
        all hubs."""
        if directory not in self._driver.directories:
            self._driver.directories.append(directory)

    def remove_directory(self, directory: PeerDirectory) -> bool:
        """Returns whether the directory was registered. Peers that it named may stay in the cache
        for ten minutes."""
        known = directory in self._driver.directories
        if known:
            self._driver.directories.remove(directory)
        return known

    def register_notification_callback(self, callback: NotificationCallback) -> str:
        """Returns the callback's id; registering it again returns the same one."""
        for name, known in self._callbacks.items():
            if known is callback:
                return name
        self._numbers += 1
        name = f"callback-{self._numbers}"
        self._callbacks[name] = callback
        self._driver.callbacks.append(callback)
        return name

    def unregister_notification_callback(self, name: str) -> bool:
        """Returns whether there was a callback with this id."""
        callback = self._callbacks.pop(name, None)
        if callback is None:
            return False
        self._driver.callbacks.remove(callback)
        return True

    # -- adapters -------------------------------------------------------------------------------

    def register_adapter(self, made: type) -> str:
        """Makes a class with the decorator `@adapter` a kind that hubs can use, and returns the
        kind's name. Raises `Conflict` if the name is taken, `InvalidAttribute` for a class without
        the decorator."""
        kind = declared_kind(made)
        if kind is None:
            raise InvalidAttribute(
                f"{made.__name__} is no adapter; declare it with the decorator @adapter"
            )
        self._driver.parts.kinds.add(kind)
        return kind.name

    async def add_adapter(
        self,
        hub: str,
        name: str,
        instance: Adapter,
        *,
        interval_ms: int | None = None,
        delete_if_successful: bool = False,
        awaits: str = "",
    ) -> str:
        """Adds an adapter that exists already, and returns its name; an adapter of the same name is
        replaced. `interval_ms` is the polling interval of a pull adapter; None: only on request.
        Raises `InvalidAttribute` for an object that is no adapter."""
        kind = AdapterKind(
            f"{_INSTANCE}{hub}:{name}",
            _direction_of(instance),
            NoInstanceSettings,
            lambda settings, context: instance,
        )
        await self.remove_adapter(hub, name)
        self._driver.parts.kinds.add(kind)
        settings = AdapterSettings(
            kind.name,
            interval_ms=interval_ms,
            delete_if_successful=delete_if_successful,
            awaits=awaits,
        )
        await self._directory.put(hub, ADAPTERS.kind, name, settings)
        return name

    async def remove_adapter(self, hub: str, name: str) -> bool:
        """Returns whether the hub had the adapter. Queued messages of an output adapter are still
        sent."""
        known = await self._directory.delete(hub, ADAPTERS.kind, name)
        self._driver.parts.kinds.remove(f"{_INSTANCE}{hub}:{name}")
        return known


def _direction_of(instance: Any) -> Any:
    for direction, needed in (
        ("output", OutputAdapter),
        ("push", PushInput),
        ("pull", PullInput),
    ):
        methods = [each for each in vars(needed) if not each.startswith("_")]
        if all(callable(getattr(instance, each, None)) for each in methods):
            return direction
    raise InvalidAttribute(
        f"{type(instance).__name__} is no adapter: it needs push and close, start and stop, or"
        " pull, settle and close"
    )
