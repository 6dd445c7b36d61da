"""Rooms: the features of a hub, as the rest of the engine sees them.

A feature declares here what it takes part in, and implements only that. The wiring constructs each
room once and hands it to one side: to the owner of channels (an `OwnerRoom` of
`engine.channels.rooms`), or to the node that serves sessions. A feature with work on both sides has
a room on each. The rooms of both sides communicate with requests through `ports.bus`."""

from __future__ import annotations

from collections.abc import (
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from itertools import chain
from typing import Any, TypeVar

from hubbub.domain.asking import Announcement, NodeRequest
from hubbub.domain.errors import Unavailable
from hubbub.engine.counters import RoomFigure
from hubbub.engine.session_requests import SessionRequest

A = TypeVar("A")
H = TypeVar("H")

NodeHandler = Callable[[str, Any], Awaitable[Any]]
"""Answers a request from a node (this one or another), whose name is the first argument, or raises
a `HubbubError`."""


class Room:
    """A feature on one side. Every part is optional. All methods are called on the event loop's
    thread; a method that is not a coroutine never blocks and never raises."""

    session_requests: Sequence[SessionRequest[Any]] = ()
    """Requests of clients that the room answers. At the node."""
    node_requests: Mapping[type[NodeRequest[Any]], NodeHandler] = {}
    """Requests that the room answers on either side. Only an `Announcement` may be handled by more
    than one room of a node."""

    def hub_changed(self, hub: str) -> None:
        """The settings of a hub changed, or the hub was deleted."""

    def channel_changed(self, hub: str, channel: str) -> None:
        """The owner of a channel changed its binding (access or storage), which is now in the hub's
        settings."""

    def figures(self) -> Iterable[RoomFigure]:
        """The room's metrics, for each scrape."""
        return ()

    async def authenticated(self, session: Any) -> None:
        """A session authenticated, for the first time or with another identity. At the node."""

    async def user_erased(self, hub: str, user_id: str) -> None:
        """A user was erased from the store: drop the user's data from memory."""

    async def hub_suspending(self, hub: str) -> None:
        """The hub is about to be suspended. After the return, the room starts no work for the hub;
        work in progress may still write."""

    async def hub_suspended(self, hub: str) -> None:
        """The hub is suspended, and its writes are held. After the return, the room has nothing of
        the hub in memory or in progress."""

    async def hub_resumed(self, hub: str) -> None:
        """The hub is back, with the store's current data. Raises `StoreUnavailable`."""

    def sweep(self) -> None:
        """Called every second."""

    async def drained(self) -> None:
        """The last session of the node has ended, and the store is still open. At the node."""

    async def stop(self) -> None:
        """The process stops: finish work in progress within a bound, and start nothing new."""


def implementing(rooms: Iterable[Room], method: Callable[..., Any]) -> tuple[Any, ...]:
    """The bound methods of the rooms that override this method of `Room`, for frequent callers."""
    name = method.__name__
    return tuple(getattr(room, name) for room in rooms if getattr(type(room), name) is not method)


def merged(tables: Iterable[Mapping[type, H]]) -> dict[type, H]:
    """The handlers of all rooms, by type of request. Raises `ValueError` if two rooms handle the
    same request."""
    handlers: dict[type, H] = {}
    for table in tables:
        for kind, handler in table.items():
            if kind in handlers:
                raise ValueError(f"two rooms answer {kind.__name__}")
            handlers[kind] = handler
    return handlers


class NodeRequests:
    """The handlers of all requests that one node answers for itself."""

    def __init__(self, *handlers: Iterable[tuple[type[NodeRequest[Any]], NodeHandler]]) -> None:
        """Announcements are handled in the order of `handlers`. Raises `ValueError` if two rooms
        handle the same request."""
        self._handlers: dict[type[NodeRequest[Any]], list[NodeHandler]] = {}
        for kind, handler in chain.from_iterable(handlers):
            known = self._handlers.setdefault(kind, [])
            if known and not issubclass(kind, Announcement):
                raise ValueError(f"two rooms answer {kind.__name__}")
            known.append(handler)

    @property
    def kinds(self) -> Iterable[type[NodeRequest[Any]]]:
        return self._handlers.keys()

    async def answer(self, node: str, request: NodeRequest[A]) -> A:
        """Raises the `HubbubError` of the handler, and `Unavailable` if no room of this node
        handles the request."""
        handlers = self._handlers.get(type(request))
        if handlers is None:
            raise Unavailable(f"this node does not answer {type(request).__name__}")
        answer: Any = None
        for handler in handlers:
            answer = await handler(node, request)
        return answer  # type: ignore[no-any-return]  # the registration says so


def node_requests_of(
    rooms: Iterable[Room],
) -> Iterator[tuple[type[NodeRequest[Any]], NodeHandler]]:
    return chain.from_iterable(room.node_requests.items() for room in rooms)
