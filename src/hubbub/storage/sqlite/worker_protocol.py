"""The protocol between a store and its worker processes: length-prefixed msgpack frames.

An operation is a public method of the worker's class, named, with its arguments; types come
from the method's own annotations, so both sides and mypy read the same signature.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, get_type_hints

import msgspec

from hubbub.frames import framed


class WorkerOptions(msgspec.Struct, frozen=True):
    """How a worker opens its database. `role` is writer or reader."""

    role: str
    path: str
    lock_patience_seconds: float
    page_bytes: int
    max_bytes: int | None
    check_seconds: float
    """How long to look for damage before opening."""
    link_id: str = ""
    """Tells this opening of the store from every other."""


class Fault(msgspec.Struct, frozen=True, array_like=True):
    """An error of `hubbub.domain.errors`, by its code."""

    code: str
    message: str


class Ready(msgspec.Struct, frozen=True, array_like=True):
    """The worker's answer to `OPEN`: it has opened the database, or could not. If an earlier
    process of the same link has committed a batch, its number and its encoded `BatchOutcome`."""

    fault: Fault | None
    last_batch: int = 0
    last_outcome: bytes = b""
    notes: tuple[str, ...] = ()
    """What the operator should know of the opening."""


class Operation(msgspec.Struct, frozen=True, array_like=True):
    method: str
    arguments: msgspec.Raw


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """The encoded answer of one operation, or why there is none."""

    fault: Fault | None
    answer: msgspec.Raw = msgspec.Raw(b"\xc0")  # nil


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """Operations that run in order in one transaction. Numbers rise."""

    number: int
    operations: list[Operation]


class BatchOutcome(msgspec.Struct, frozen=True, array_like=True):
    """With `fault`, nothing of the batch took effect."""

    fault: Fault | None
    outcomes: list[Outcome]


def _plain(value: object) -> object:
    """Values that msgpack cannot encode, as lists and dictionaries: ranges, keys of
    dictionaries."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise NotImplementedError(f"{type(value)} cannot be sent to a worker")


encoder = msgspec.msgpack.Encoder(enc_hook=_plain)
ready_decoder = msgspec.msgpack.Decoder(Ready)
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
