"""Adapters: the ways by which messages go out to peers and come in from them.

Contract for every adapter:
- It never blocks the event loop; a library that blocks runs in a thread.
- It connects only through the `Outgoing` and the `Dial` of its context, which check addresses, keep
  fair shares between hubs and end what takes too long.
- A delivery may be repeated after a crash, always with the same `key`. An adapter hands the key on
  as its medium allows (`Message-ID`, `Idempotency-Key`, a transaction id), so that receivers can
  drop repetitions.
- Its exceptions are shown to administrators and senders, and must contain no secrets.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

import msgspec

from hubbub.domain.callbacks import Reach
from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.peers import Address
from hubbub.domain.communication.settings import MOST_PER_LOOK
from hubbub.domain.errors import Conflict, InvalidAttribute, NotFound
from hubbub.domain.fields import whole_numbers
from hubbub.domain.push.options import PushOptions
from hubbub.domain.push.outcomes import Outcome
from hubbub.ports.clock import Clock
from hubbub.ports.outgoing import Outgoing

logger = logging.getLogger(__name__)

Direction = Literal["output", "push", "pull"]
"""`output`: messages go out to peers. `push`: the medium delivers messages to the adapter. `pull`:
the hub polls the adapter."""
Publish = Callable[[PeerMessage], Awaitable[str]]
"""Stores an incoming message and returns its id once it is on disk. Raises `HubbubError`:
`BadRequest` is permanent, others are temporary."""
S = TypeVar("S", bound=msgspec.Struct)


class AdapterFailed(Exception):
    """The message cannot be delivered to this address; another attempt would not help."""


class TemporaryFailure(Exception):
    """Another attempt may help, not before `retry_after_seconds`."""

    def __init__(self, message: str, retry_after_seconds: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class Delivery(msgspec.Struct, frozen=True):
    """One message to one address of one peer, who is `message.receiver`."""

    hub: str
    message: PeerMessage
    peer: str
    address: Address
    key: str
    """The same for every attempt, and distinct for each message and address: 1 to 64 letters,
    digits and hyphens."""


class OutputAdapter(Protocol):
    """Sends messages to peers. Pushes to different peers may run concurrently; pushes to one (peer,
    address) run one after another."""

    async def push(self, delivery: Delivery) -> None:
        """Returns once the message was handed over. Raises `AdapterFailed` or `TemporaryFailure`;
        any other exception counts as `AdapterFailed`. A push that exceeds its timeout is cancelled
        and counts as `TemporaryFailure`."""
        ...

    async def close(self) -> None:
        """Called when no push is running; none follows."""
        ...


class PushInput(Protocol):
    """Listens on its own and publishes incoming messages."""

    async def start(self, publish: Publish) -> None:
        """If this raises, the adapter cannot listen and is not added."""
        ...

    async def stop(self) -> None:
        """Ends its tasks and releases its resources. Nothing is published after this returns."""
        ...


class PushTasks(PushInput):
    """A push input with background tasks, to derive from: `init` begins to listen, `schedule` runs
    a task, `publish_message` hands a message in, and `clean_up` ends. After the adapter was removed
    its tasks are cancelled, and nothing is published any more."""

    def __init__(self) -> None:
        self._publish: Publish | None = None
        self._scheduled: set[asyncio.Task[None]] = set()

    async def init(self) -> None:
        """If this raises, the adapter cannot listen."""

    async def clean_up(self) -> None:
        """Called when all tasks have ended."""

    def schedule(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs the work until it ends or the adapter is removed. Its exceptions are logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._scheduled.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._scheduled.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("%s: a task failed", type(self).__name__, exc_info=task.exception())

    async def publish_message(self, message: PeerMessage) -> str:
        """Returns the message's id once it is on disk. Raises `HubbubError`, and `NotFound` before
        `init` and after the adapter was removed."""
        if self._publish is None:
            raise NotFound("the adapter does not listen")
        return await self._publish(message)

    async def start(self, publish: Publish) -> None:
        self._publish = publish
        try:
            await self.init()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        self._publish = None
        tasks = [*self._scheduled]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self.clean_up()


class HttpAnswer(msgspec.Struct, frozen=True):
    """The response to a request that an input adapter received; the body is plain text."""

    status: int
    body: bytes = b""


class HttpInput(PushInput, Protocol):
    """A push input that receives HTTP requests in its own format, such as signed events, at the
    hub's input endpoint. The adapter itself authenticates the sender."""

    async def receive(self, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        """Header names are in lower case. Published messages are on disk before this returns.
        Raises `NotPermitted`, `BadRequest` and the errors of `Publish`."""
        ...


class Pulled(msgspec.Struct, frozen=True):
    """A polled message. A pull may be repeated after a crash: if the message's id depends only on
    the source, the repeat is a duplicate. A message without a sender gets as sender the peer in its
    header `peer`, if the header `from` is among the parameters of one of that peer's addresses;
    otherwise the adapter's name. For a reply, an adapter sets both: `peer` from the message replied
    to, `from` from the replying address, such as an e-mail address."""

    message: PeerMessage
    receipt: object = None
    """The argument for `settle`, such as a UID or the name of a file."""
    last: bool = False
    """Whether this is the source's last message: the poll ends with it and does not ask again."""


class PullInput(Protocol):
    """Polled for messages, one pull at a time. In each interval and on each request the hub polls
    once: it pulls until there is no message, at most `maxPerLook` (adapter settings) or `per_look`
    (adapter kind) times.

    An adapter that must register at its source, so that the source queues messages for it, also has
    `async def begin(self) -> None`: called before the adapter is added, and again at each start. If
    it raises, polling continues.
    """

    async def pull(self) -> Pulled | None:
        """Returns the next message, or None if there is none. After an exception polling continues;
        its text is shown as the adapter's last error. If a message cannot be stored now, the hub
        keeps it and retries before the next pull."""
        ...

    async def settle(self, receipt: object) -> None:
        """The message with this receipt is on disk, and the source may delete it. Not called if the
        hub crashed in between; `pull` then returns the message again. Without `refuse`, refused
        messages are settled as well."""
        ...

    async def close(self) -> None:
        """Called when no pull is running; none follows."""
        ...


class PatientPull(PullInput, Protocol):
    """A pull input that takes nothing while it is still being written. When the adapter is polled
    for the last time, the hub waits for what the adapter has seen."""

    def pending_seconds(self) -> float:
        """Seconds until `pull` may return what was seen but not returned yet; 0: there is
        nothing."""
        ...


class RefusablePull(PullInput, Protocol):
    """A pull input whose source would lose the original if a refused message were settled."""

    async def refuse(self, receipt: object) -> None:
        """The message with this receipt was refused permanently. Its original stays at the source;
        `pull` skips it until it changes or the adapter is created again."""
        ...


class Dial(Protocol):
    """Connections of one hub that do not use HTTP. The name is resolved, every address is checked,
    and the connection goes to a checked address."""

    async def connect(self, host: str, port: int, timeout_seconds: float) -> socket.socket:
        """Returns a connected, non-blocking TCP socket without TLS. Raises `SendFailed`."""
        ...


class HubChannels(Protocol):
    """The channels of the adapter's own hub, for the adapter that bridges channels and peers."""

    async def publish(self, channel: str, message: PeerMessage, key: str) -> None:
        """Publishes the message, stored if the channel stores; a repeat with the same `key` is not
        stored twice. The header `message` of the copy is the message's id. Raises
        `HubbubError`."""
        ...

    async def take(self, channel: str, reader: str) -> Pulled | None:
        """Returns the next message that `reader`, a durable subscription owned by the hub, has not
        acknowledged; its receipt is for `acknowledge`. Type and subtype are empty where the
        channel's message has none. Raises `HubbubError`."""
        ...

    async def follow(self, channel: str, reader: str) -> None:
        """Creates the durable subscription `reader` on the channel; an existing one keeps its
        cursor. Raises `HubbubError`."""
        ...

    async def acknowledge(self, channel: str, reader: str, receipt: object) -> None:
        """Raises `HubbubError`."""
        ...


class Pushed(msgspec.Struct, frozen=True):
    """The result of a push to one device."""

    outcome: Outcome
    reason: str = ""
    retry_after_seconds: float = 0.0


class Devices(Protocol):
    """The devices that users of the adapter's own hub registered for pushes."""

    async def push(self, user_id: str, options: PushOptions, message_id: str) -> list[Pushed]:
        """Attempts one push for each device; empty if the user has none. Raises `HubbubError`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterContext:
    """The environment of an adapter of a hub. `address` is the peer's address for an instance of a
    stateful output adapter, else None."""

    hub: str
    name: str
    """The adapter's name in its hub; addresses of peers refer to it."""
    outgoing: Outgoing
    dial: Dial
    channels: HubChannels
    devices: Devices
    clock: Clock
    reach_of_hub: Callable[[], Reach] = lambda: "public"
    files: Path | None = None
    """The hub's folder in which adapters may read and move files; None: the operator configured
    none."""
    address: Address | None = None

    @property
    def reach(self) -> Reach:
        """The addresses that the hub may connect to now; the setting may change while the adapter
        lives."""
        return self.reach_of_hub()


Adapter = OutputAdapter | PushInput | PullInput


@dataclass(frozen=True, slots=True)
class AdapterKind(Generic[S]):
    """A kind of adapter that hubs can use. `make` only constructs the adapter and connects
    nowhere."""

    name: str
    direction: Direction
    settings: type[S]
    """A struct whose fields have the names of the settings; unknown fields are rejected."""
    make: Callable[[S, AdapterContext], Adapter]
    stateful: bool = False
    """Output adapters: one instance per peer, created on first use and closed when idle; its
    context has the peer's address. Otherwise all peers share one instance."""
    secrets: frozenset[str] = frozenset()
    """Settings that are never shown; all are texts, listed by their JSON names."""
    timeout_seconds: float = 30.0
    """Timeout of one push or pull."""
    per_look: int = MOST_PER_LOOK
    """Polled adapters: the most messages per poll, unless the adapter's settings say otherwise."""

    def read(self, settings: Mapping[str, Any]) -> S:
        """Raises `InvalidAttribute`, which names the setting."""
        try:
            return msgspec.convert(whole_numbers(dict(settings)), self.settings)
        except msgspec.ValidationError as error:
            raise InvalidAttribute(f"settings of the adapter {self.name!r}: {error}") from None


F = TypeVar("F", bound=Callable[..., Adapter])


@dataclass(slots=True, eq=False, weakref_slot=True)
class AdapterKinds:
    """All kinds of adapters of this server, by name."""

    _kinds: dict[str, AdapterKind[Any]] = field(default_factory=dict)

    def add(self, kind: AdapterKind[Any]) -> None:
        """Raises `Conflict` for a name that is taken."""
        if kind.name in self._kinds:
            raise Conflict(f"there is an adapter of the kind {kind.name!r} already; rename one")
        self._kinds[kind.name] = kind

    def remove(self, name: str) -> None:
        """Does nothing if there is no such kind."""
        self._kinds.pop(name, None)

    def find(self, name: str) -> AdapterKind[Any]:
        """Raises `NotFound`, which lists the existing kinds."""
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
    per_look: int = MOST_PER_LOOK,
) -> Callable[[F], F]:
    """Declares a class as an adapter: `@adapter(name="email", settings=EmailSettings)`. The class
    is constructed with its settings and an `AdapterContext`."""

    def declare(make: F) -> F:
        _declared.append(
            AdapterKind(
                name, direction, settings, make, stateful, secrets, timeout_seconds, per_look
            )
        )
        return make

    return declare


@contextmanager
def declaring() -> Iterator[list[AdapterKind[Any]]]:
    """Collects the kinds declared inside the context in a list, instead of in `declared`."""
    before = len(_declared)
    found: list[AdapterKind[Any]] = []
    try:
        yield found
    finally:
        found += _declared[before:]
        del _declared[before:]


def declared_kind(made: object) -> AdapterKind[Any] | None:
    """The kind that a class was declared as; None for a class without the decorator."""
    return next((kind for kind in _declared if kind.make is made), None)


def declared() -> AdapterKinds:
    """The kinds declared by all modules imported so far. Raises `Conflict`."""
    kinds = AdapterKinds()
    for kind in _declared:
        kinds.add(kind)
    return kinds
