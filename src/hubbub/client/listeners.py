"""Callbacks of the application by kind of event."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from hubbub.client.events import Event

logger = logging.getLogger("hubbub.client")

E = TypeVar("E", bound=Event)


class Listeners:
    def __init__(self) -> None:
        self._callbacks: dict[type, list[Callable[[Any], None]]] = {}

    def add(self, kind: type[E], callback: Callable[[E], None]) -> Callable[[], None]:
        """Returns a function that removes the callback."""
        callbacks = self._callbacks.setdefault(kind, [])
        callbacks.append(callback)

        def remove() -> None:
            if callback in callbacks:
                callbacks.remove(callback)

        return remove

    def emit(self, event: Event) -> None:
        """Exceptions of a callback are logged and do not affect others."""
        for callback in list(self._callbacks.get(type(event), ())):
            try:
                callback(event)
            except Exception:
                logger.exception("a callback for %s failed", type(event).__name__)
