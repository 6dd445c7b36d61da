"""The protocol between a hub and its plugin workers: length-prefixed frames of JSON.

JSON instead of pickle: messages of a compromised worker are only data. Values of commands and
results stay encoded until they are needed.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from hubbub.domain.plugins.findings import Violation
from hubbub.domain.plugins.shape import PluginShape
from hubbub.frames import framed
from hubbub.ports.plugins import CallContext

MAX_FRAME_BYTES = 4 * 1024 * 1024
"""The limit in both directions; a worker that exceeds it is killed."""

MAX_STATUS = (1 << 31) - 1
"""Every protocol can represent it."""

NULL = msgspec.Raw(b"null")


class SandboxOptions(msgspec.Struct, frozen=True):
    link: int
    """The descriptor of the socket to the hub."""
    memory_bytes: int
    """Memory for plugins, in addition to the interpreter's at lockdown."""
    cpu_seconds: int
    """The processor time of the process in its whole life; shortly before the limit it asks to be
    replaced."""


# -- from the hub ---------------------------------------------------------------------------------


class LoadFile(msgspec.Struct, frozen=True, tag="load"):
    """Analyses a file unless disabled, and runs its top-level code."""

    name: str
    source: bytes
    analyse: bool


class Run(msgspec.Struct, frozen=True, tag="run"):
    """Calls a function of a loaded file with the document and a context."""

    id: int
    name: str
    function: str
    document: msgspec.Raw
    context: CallContext


class CallReply(msgspec.Struct, frozen=True, tag="reply"):
    """The hub's response to a `CallRequest` of a call; a status other than 0 has a text."""

    id: int
    status: int
    value: msgspec.Raw = NULL
    text: str = ""


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """Cancels a call whose caller no longer waits."""

    id: int


FromHub = LoadFile | Run | CallReply | Cancel


# -- from a worker --------------------------------------------------------------------------------


class SandboxReady(msgspec.Struct, frozen=True, tag="ready"):
    """The sandbox is active, or `missing` names the limit that this system lacks."""

    missing: str = ""


class Loaded(msgspec.Struct, frozen=True, tag="loaded"):
    """A file with violations is not loaded."""

    shape: PluginShape
    violations: tuple[Violation, ...] = ()


class Started(msgspec.Struct, frozen=True, tag="started"):
    """The call's code starts: it must not be repeated elsewhere."""

    id: int


class CallEnded(msgspec.Struct, frozen=True, tag="ended"):
    """The call ended. With `retire`, the worker accepts no further calls."""

    id: int
    status: Annotated[int, msgspec.Meta(ge=0, le=MAX_STATUS)]
    result: msgspec.Raw = NULL
    retire: bool = False


class CallRequest(msgspec.Struct, frozen=True, tag="ask"):
    """A call's request to its context; a call makes one at a time."""

    id: int
    operation: str
    arguments: msgspec.Raw


FromWorker = SandboxReady | Loaded | Started | CallEnded | CallRequest

_encoder = msgspec.json.Encoder()
from_hub: msgspec.json.Decoder[FromHub] = msgspec.json.Decoder(FromHub)
from_worker: msgspec.json.Decoder[FromWorker] = msgspec.json.Decoder(FromWorker)


def frame(message: FromHub | FromWorker) -> bytes:
    return framed(_encoder.encode(message))
