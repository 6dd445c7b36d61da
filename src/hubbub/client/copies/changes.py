"""Pending changes of a local copy, and the effects that process them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import msgspec

from hubbub.domain.documents.operations import Operation, read_patch
from hubbub.domain.documents.paths import Path, is_index
from hubbub.domain.documents.values import NO_LIMITS, DocumentLimits, Value

Guard = Literal["auto", "always", "never"]
"""Whether a change is bound to its base version. `auto`: if its path contains a list index, or a
function created it."""
EditFunction = Callable[[Value], bytes]
"""Returns the operations for a document, as JSON. It may be called again for a newer document."""

LIMITS: DocumentLimits = msgspec.structs.replace(NO_LIMITS, depth=DocumentLimits().depth)
"""Client-side limits; the hub enforces its own."""


class SavedChange(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A pending change in a file. `base` is the version of the hub's document for which it was
    made, in `epoch`; `lists` are the lists that its paths index into. A change with a `sequence`
    was sent: it is resent unchanged or not at all."""

    id: str
    ops: msgspec.Raw
    guard: Guard = "auto"
    function: bool = False
    lists: tuple[Path, ...] = ()
    epoch: str = ""
    base: int = 0
    producer: str = ""
    sequence: int = 0
    expected: int | None = None
    sent_epoch: str | None = None


class PendingChange:
    """A change that the hub has not confirmed. `conflicted`: another client has changed a list that
    its paths index into."""

    __slots__ = ("answered", "conflicted", "function", "saved", "tries")

    def __init__(self, saved: SavedChange, function: EditFunction | None = None) -> None:
        self.saved = saved
        self.function = function
        self.conflicted = False
        self.answered: tuple[str, int] | None = None
        """Epoch and version that the change produced."""
        self.tries = 0

    @property
    def id(self) -> str:
        return self.saved.id

    @property
    def ops(self) -> bytes:
        return bytes(self.saved.ops)

    @property
    def sent(self) -> bool:
        return bool(self.saved.sequence)

    @property
    def in_flight(self) -> bool:
        """Whether the change was sent and its result is unknown."""
        return self.sent and self.answered is None

    @property
    def guarded(self) -> bool:
        saved = self.saved
        return saved.guard == "always" or (
            saved.guard == "auto" and (saved.function or bool(saved.lists))
        )

    def alter(self, **changes: object) -> None:
        self.saved = msgspec.structs.replace(self.saved, **changes)

    def operations(self) -> list[Operation]:
        """Decoded each time, because a document takes ownership of the values."""
        return read_patch(self.ops, LIMITS)

    def rebase(self, epoch: str, version: int) -> None:
        """Sets the version that the change is based on. A change whose function is lost was made
        for the content of the other epoch."""
        saved = self.saved
        if epoch != saved.epoch and saved.function and self.function is None:
            self.conflicted = True
        if version > saved.base or epoch != saved.epoch:
            self.alter(epoch=epoch, base=version)

    def disturb(self, version: int, operations: Iterable[Operation] | None) -> None:
        """Another client changed the document to this version with these operations (None:
        unknown)."""
        saved = self.saved
        if version <= saved.base or self.function is not None:
            return
        if saved.function or (
            saved.lists and (operations is None or touches(operations, saved.lists))
        ):
            self.conflicted = True


def lists_in(root: Value, operations: Iterable[Operation]) -> tuple[Path, ...]:
    """The lists of a document that the operations' paths index into, except lists that the
    operations create."""
    found: dict[Path, None] = {}
    for operation in operations:
        for path in (operation.path, operation.source or ()):
            found.update(dict.fromkeys(_lists_on(root, path)))
    return tuple(found)


def _lists_on(value: Value, path: Path) -> Iterable[Path]:
    for position, segment in enumerate(path):
        if type(value) is list:
            if segment == "-":
                return
            yield path[:position]
            index = int(segment) if is_index(segment) and len(segment) < 10 else len(value)
            if index >= len(value):
                return
            value = value[index]
        elif type(value) is dict and segment in value:
            value = value[segment]
        else:
            return


def touches(operations: Iterable[Operation], lists: Iterable[Path]) -> bool:
    """Whether the operations change one of the lists itself, or one of its parents. Changes inside
    an item do not count."""
    lists = tuple(lists)
    for operation in operations:
        paths = [] if operation.op == "test" else [operation.path]
        if operation.op == "move":
            paths.append(operation.source or ())
        for path in paths:
            if any(_touches(path, each) for each in lists):
                return True
    return False


def _touches(path: Path, of_list: Path) -> bool:
    if len(path) <= len(of_list):
        return of_list[: len(path)] == path
    return len(path) == len(of_list) + 1 and path[:-1] == of_list


# -- what is to be done, in this order ------------------------------------------------------------


class Save(msgspec.Struct, frozen=True, tag_field="effect", tag="save"):
    """The change must be on disk before the following effects."""

    change: SavedChange


class Forget(msgspec.Struct, frozen=True, tag_field="effect", tag="forget"):
    """A saved change is settled. `producer` and `sequence` identify the last change that the hub
    accepted."""

    id: str
    producer: str
    sequence: int


class Send(msgspec.Struct, frozen=True, tag_field="effect", tag="send"):
    change: SavedChange


class Fetch(msgspec.Struct, frozen=True, tag_field="effect", tag="fetch", omit_defaults=True):
    """Asks the hub for the changes since a version of an epoch; without one, for the document."""

    since: int | None = None
    epoch: str | None = None


class Confirmed(msgspec.Struct, frozen=True, tag_field="effect", tag="confirmed"):
    id: str
    epoch: str
    version: int


class Rejected(msgspec.Struct, frozen=True, tag_field="effect", tag="rejected"):
    """Returns rejected operations, which have no effect, to the application."""

    id: str
    ops: msgspec.Raw
    error: Exception


class Wait(msgspec.Struct, frozen=True, tag_field="effect", tag="wait"):
    """The hub cannot accept a change now: call `resend` later, after `seconds` if given."""

    id: str
    seconds: float | None


class Backoff(msgspec.Struct, frozen=True, tag_field="effect", tag="backoff"):
    """Other clients changed the document first, `tries` times in a row: call `resend` after a
    random delay that grows with `tries`."""

    id: str
    tries: int


Effect = Save | Forget | Send | Fetch | Confirmed | Rejected | Wait | Backoff
