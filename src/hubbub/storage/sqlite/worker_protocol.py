"""The protocol between a store and its worker processes: length-prefixed msgpack frames.

An operation is the name of a public method of the worker's class with its arguments; their types
come from the method's annotations, so that both sides and mypy use the same signature.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, get_type_hints

import msgspec

from hubbub.domain.audit import AuditEntry
from hubbub.frames import framed
from hubbub.storage.sql.fair_queue import Bound


class WorkerOptions(msgspec.Struct, frozen=True):
    """How a worker opens its database. `role` is writer or reader."""

    role: str
    path: str
    lock_patience_seconds: float
    page_bytes: int
    max_bytes: int | None
    check_seconds: float
    """The time limit of the damage check before opening."""
    reserve_bytes: int = 0
    """Disk space to reserve, so that deletions succeed when the disk is full."""
    link_id: str = ""
    """Distinguishes this opening of the store from all others."""


class Fault(msgspec.Struct, frozen=True, array_like=True):
    """An error of `hubbub.domain.errors`, by its code."""

    code: str
    message: str
    detail: str | None = None


class WorkerReady(msgspec.Struct, frozen=True, array_like=True):
    """The worker's response to `OPEN`: it opened the database, or failed. Contains the number and
    the encoded `BatchOutcome` of the last batch that an earlier process of the same link committed,
    if any."""

    fault: Fault | None
    last_batch: int = 0
    last_outcome: bytes = b""
    notes: tuple[str, ...] = ()
    """Notes about the opening for the operator."""


class WorkerOperation(msgspec.Struct, frozen=True, array_like=True):
    method: str
    arguments: msgspec.Raw
    bound: Bound | None = None
    audit: AuditEntry | None = None


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """The encoded result of one operation, or its fault."""

    fault: Fault | None
    answer: msgspec.Raw = msgspec.Raw(b"\xc0")  # nil


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """Operations that run in order in one transaction. Batch numbers ascend."""

    number: int
    operations: list[WorkerOperation]


class BatchOutcome(msgspec.Struct, frozen=True, array_like=True):
    """With `fault`, the batch had no effect."""

    fault: Fault | None
    outcomes: list[Outcome]
    problem: str | None = None
    """Why nothing can be stored at present, in public words."""


def _plain(value: object) -> object:
    """Converts ranges and dictionaries' keys, which msgpack cannot encode."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise NotImplementedError(f"{type(value)} cannot be sent to a worker")


encoder = msgspec.msgpack.Encoder(enc_hook=_plain)
ready_decoder = msgspec.msgpack.Decoder(WorkerReady)
batch_decoder = msgspec.msgpack.Decoder(Batch)
outcome_decoder = msgspec.msgpack.Decoder(BatchOutcome)


def frame(value: object) -> bytes:
    return framed(encoder.encode(value))


OPEN = frame(None)
"""The hub's first frame."""


@cache
def arguments_decoder(method: Callable[..., Any]) -> msgspec.msgpack.Decoder[tuple[Any, ...]]:
    hints = get_type_hints(method)
    names = [name for name in inspect.signature(method).parameters if name != "self"]
    return msgspec.msgpack.Decoder(tuple[tuple(hints[name] for name in names)])  # type: ignore[misc]


@cache
def answer_decoder(method: Callable[..., Any]) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(get_type_hints(method)["return"])
