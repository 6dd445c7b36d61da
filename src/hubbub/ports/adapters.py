"""Adapters: the ways by which messages go out to peers and come in from them.

Contract for every adapter:
- It never blocks the event loop; a library that blocks runs in a thread.
- It connects only through the `Outgoing` and the `Dial` of its context, which check addresses, keep
  fair shares between hubs and end what takes too long.
- A delivery may be repeated after a crash, always with the same `key`. An adapter hands the key on
  as its medium allows (`Message-ID`, `Idempotency-Key`, a transaction id), so that receivers can
  drop repetitions.
- What it raises is shown to administrators and senders: no secrets in it.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

import msgspec

from hubbub.domain.callbacks import Reach
from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.peers import Address
from hubbub.domain.errors import Conflict, InvalidAttribute, NotFound
from hubbub.domain.fields import whole_numbers
from hubbub.domain.push.options import PushOptions
from hubbub.domain.push.outcomes import Outcome
from hubbub.ports.clock import Clock
from hubbub.ports.outgoing import Outgoing

Direction = Literal["output", "push", "pull"]
"""Messages go out to peers; come in when the medium says so; come in when the hub asks."""
Publish = Callable[[PeerMessage], Awaitable[str]]
"""Takes an incoming message and answers its id once the message is on disk. Raises `HubbubError`:
a `BadRequest` will be refused again, others may work later."""
S = TypeVar("S", bound=msgspec.Struct)


class AdapterFailed(Exception):
    """The message cannot be delivered to this address; another attempt would not help."""


class TemporaryFailure(Exception):
    """Another attempt may help, not before `retry_after_seconds`."""

    def __init__(self, message: str, retry_after_seconds: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class Delivery(msgspec.Struct, frozen=True):
    """One message to one address of one peer. `message.receiver` is the peer."""

    hub: str
    message: PeerMessage
    peer: str
    address: Address
    key: str
    """The same for every attempt, and different for each message and address: 1 to 64 letters,
    digits and hyphens."""


class OutputAdapter(Protocol):
    """Sends messages to peers. Several pushes may run at the same time, for different peers; those
    of one (peer, address) follow each other in order."""

    async def push(self, delivery: Delivery) -> None:
        """Returns once the message was handed over. Raises `AdapterFailed` or `TemporaryFailure`;
        whatever else is raised counts as `AdapterFailed`. Cancelled when it takes too long, which
        counts as `TemporaryFailure`."""
        ...

    async def close(self) -> None:
        """No push is running and none follows."""
        ...


class PushInput(Protocol):
    """Listens by itself, and publishes what arrives."""

    async def start(self, publish: Publish) -> None:
        """Raises where it cannot listen; the adapter is not added then."""
        ...

    async def stop(self) -> None:
        """Ends its tasks and cleans up. Nothing is published after it returned."""
        ...


class HttpAnswer(msgspec.Struct, frozen=True):
    """What whoever sent a request to an input adapter gets; the body is plain text."""

    status: int
    body: bytes = b""


class HttpInput(PushInput, Protocol):
    """A push input that is sent requests in a form of its own, such as signed events, at the hub's
    door for input. The adapter itself says who may send them."""

    async def receive(self, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        """Header names are in lower case. What it publishes is on disk before it returns. Raises
        `NotPermitted`, `BadRequest` and what `Publish` raises."""
        ...


class Pulled(msgspec.Struct, frozen=True):
    """A message that was pulled. A pull may be repeated after a crash: an id of the message that
    depends only on the source makes the repetition the same message. A message without a sender has
    as its sender the peer that its header `peer` names, if the header `from` is among the
    parameters of one of that peer's addresses; otherwise the adapter's name. An adapter sets both
    for an answer: `peer` from what is answered, `from` from who answers, such as the e-mail
    address."""

    message: PeerMessage
    receipt: object = None
    """What `settle` needs, such as a UID or the name of a file."""


class PullInput(Protocol):
    """Is asked for messages, one pull at a time."""

    async def pull(self) -> Pulled | None:
        """The next message, or None if there is none now. After an exception the schedule goes on;
        its text is shown as the adapter's last error."""
        ...

    async def settle(self, receipt: object) -> None:
        """The message of this receipt is on disk, or was refused for good: the source may forget
        it. Not called where a crash came between; `pull` then gives the message again."""
        ...

    async def close(self) -> None:
        """No pull is running and none follows."""
        ...


class Dial(Protocol):
    """Connections that do not speak HTTP, for one hub. The name is resolved, every address of it is
    checked, and it is that very address that is connected to."""

    async def connect(self, host: str, port: int, timeout_seconds: float) -> socket.socket:
        """A connected, non-blocking TCP socket, without TLS. Raises `SendFailed`."""
        ...


class HubChannels(Protocol):
    """The channels of the adapter's own hub, for the adapter that connects peers to them."""

    async def publish(self, channel: str, message: PeerMessage, key: str) -> None:
        """Publish the message as a stored message where the channel stores; one with the same
        `key` is not stored twice. Raises `HubbubError`."""
        ...

    async def take(self, channel: str, reader: str) -> Pulled | None:
        """The next message of a storing channel that `reader`, a durable subscription of the hub's
        own, has not acknowledged; the receipt is for `acknowledge`. Raises `HubbubError`."""
        ...

    async def acknowledge(self, channel: str, reader: str, receipt: object) -> None:
        """Raises `HubbubError`."""
        ...


class Pushed(msgspec.Struct, frozen=True):
    """What became of a push to one device."""

    outcome: Outcome
    reason: str = ""
    retry_after_seconds: float = 0.0


class Devices(Protocol):
    """The browsers and phones that users of the adapter's own hub registered for pushes."""

    async def push(self, user_id: str, options: PushOptions, message_id: str) -> list[Pushed]:
        """One attempt for each device; empty if the user has none. Raises `HubbubError`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterContext:
    """What an adapter of a hub works with. `address` is that of its peer for an instance of a
    stateful output adapter, else None."""

    hub: str
    name: str
    """The adapter's name in its hub, which addresses of peers refer to."""
    outgoing: Outgoing
    dial: Dial
    channels: HubChannels
    devices: Devices
    clock: Clock
    reach_of_hub: Callable[[], Reach] = lambda: "public"
    files: Path | None = None
    """The folder of the hub's own in which adapters may read and move files; None: the operator
    gave none."""
    address: Address | None = None

    @property
    def reach(self) -> Reach:
        """Which addresses the hub may connect to now: its setting may change while the adapter
        lives."""
        return self.reach_of_hub()


Adapter = OutputAdapter | PushInput | PullInput


@dataclass(frozen=True, slots=True)
class AdapterKind(Generic[S]):
    """A sort of adapter that hubs can use. `make` connects nowhere: it only keeps what it gets."""

    name: str
    direction: Direction
    settings: type[S]
    """A struct; unknown fields are refused. Its fields have the names of the settings."""
    make: Callable[[S, AdapterContext], Adapter]
    stateful: bool = False
    """Of output adapters: one instance for each peer, made when it is first needed and closed when
    idle; its context has the peer's address. Otherwise all peers share one instance."""
    secrets: frozenset[str] = frozenset()
    """Settings that are never shown, all of them texts, by their names in JSON."""
    timeout_seconds: float = 30.0
    """How long one push or pull may take."""

    def read(self, settings: Mapping[str, Any]) -> S:
        """Raises `InvalidAttribute`, which names the setting."""
        try:
            return msgspec.convert(whole_numbers(dict(settings)), self.settings)
        except msgspec.ValidationError as error:
            raise InvalidAttribute(f"settings of the adapter {self.name!r}: {error}") from None


F = TypeVar("F", bound=Callable[..., Adapter])


@dataclass(slots=True, eq=False, weakref_slot=True)
class AdapterKinds:
    """All kinds of adapters that this server has, by name."""

    _kinds: dict[str, AdapterKind[Any]] = field(default_factory=dict)

    def add(self, kind: AdapterKind[Any]) -> None:
        """Raises `Conflict` for a name that is taken."""
        if kind.name in self._kinds:
            raise Conflict(f"there is an adapter of the kind {kind.name!r} already; rename one")
        self._kinds[kind.name] = kind

    def find(self, name: str) -> AdapterKind[Any]:
        """Raises `NotFound`, which names the kinds that there are."""
        found = self._kinds.get(name)
        if found is None:
            known = ", ".join(sorted(self._kinds)) or "none"
            raise NotFound(f"there is no adapter of the kind {name!r}; this server has: {known}")
        return found

    def names(self) -> list[str]:
        return sorted(self._kinds)


_declared: list[AdapterKind[Any]] = []


def adapter(
    *,
    name: str,
    settings: type[msgspec.Struct],
    direction: Direction = "output",
    stateful: bool = False,
    secrets: frozenset[str] = frozenset(),
    timeout_seconds: float = 30.0,
) -> Callable[[F], F]:
    """Declares a class as an adapter: `@adapter(name="email", settings=EmailSettings)`. The class
    is constructed with its settings and an `AdapterContext`."""

    def declare(make: F) -> F:
        _declared.append(
            AdapterKind(name, direction, settings, make, stateful, secrets, timeout_seconds)
        )
        return make

    return declare


@contextmanager
def declaring() -> Iterator[list[AdapterKind[Any]]]:
    """What is declared inside is in the list afterwards, and not among the `declared`."""
    before = len(_declared)
    found: list[AdapterKind[Any]] = []
    try:
        yield found
    finally:
        found += _declared[before:]
        del _declared[before:]


def declared() -> AdapterKinds:
    """The kinds that were declared by modules imported so far. Raises `Conflict`."""
    kinds = AdapterKinds()
    for kind in _declared:
        kinds.add(kind)
    return kinds
