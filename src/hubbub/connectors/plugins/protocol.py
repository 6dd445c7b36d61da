"""The protocol between a hub and its plugin workers: length-prefixed frames of JSON.

JSON and not pickle: what a worker says is data, whoever has taken the worker over. Values of
commands and results stay encoded until the side that needs them reads them.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from hubbub.domain.plugins.findings import Violation
from hubbub.domain.plugins.shape import Shape
from hubbub.frames import framed
from hubbub.ports.plugins import CallContext

MAX_FRAME_BYTES = 4 * 1024 * 1024
"""Of either side; a worker that sends more is ended."""

MAX_STATUS = (1 << 31) - 1
"""Every door has room for it."""

NULL = msgspec.Raw(b"null")


class WorkerOptions(msgspec.Struct, frozen=True):
    link: int
    """The file descriptor of the socket to the hub."""
    memory_bytes: int
    """What plugins may allocate, beyond what the interpreter has taken when it is locked down."""
    cpu_seconds: int
    """Of the process in its whole life; short of them it asks to be replaced."""


# -- from the hub ---------------------------------------------------------------------------------


class Load(msgspec.Struct, frozen=True, tag="load"):
    """Analyse a file unless told not to, and run what is outside of its functions."""

    name: str
    source: bytes
    analyse: bool


class Run(msgspec.Struct, frozen=True, tag="run"):
    """Call a function of a loaded file with the document and a context."""

    id: int
    name: str
    function: str
    document: msgspec.Raw
    context: CallContext


class Reply(msgspec.Struct, frozen=True, tag="reply"):
    """What the hub answers to the `Ask` of a call; a status other than 0 comes with a text."""

    id: int
    status: int
    value: msgspec.Raw = NULL
    text: str = ""


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """Nobody waits for this call any longer."""

    id: int


FromHub = Load | Run | Reply | Cancel


# -- from a worker --------------------------------------------------------------------------------


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The worker is locked down, or `missing` says which limit this system does not offer."""

    missing: str = ""


class Loaded(msgspec.Struct, frozen=True, tag="loaded"):
    """A file with violations is not loaded."""

    shape: Shape
    violations: tuple[Violation, ...] = ()


class Started(msgspec.Struct, frozen=True, tag="started"):
    """The call's code begins to run: it must not be repeated elsewhere."""

    id: int


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """The call's code is over. With `retire`, the worker takes no further calls."""

    id: int
    status: Annotated[int, msgspec.Meta(ge=0, le=MAX_STATUS)]
    result: msgspec.Raw = NULL
    retire: bool = False


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    """The call wants something of its context; it has one such request at a time."""

    id: int
    operation: str
    arguments: msgspec.Raw


FromWorker = Ready | Loaded | Started | Ended | Ask

_encoder = msgspec.json.Encoder()
from_hub: msgspec.json.Decoder[FromHub] = msgspec.json.Decoder(FromHub)
from_worker: msgspec.json.Decoder[FromWorker] = msgspec.json.Decoder(FromWorker)


def frame(message: FromHub | FromWorker) -> bytes:
    return framed(_encoder.encode(message))
