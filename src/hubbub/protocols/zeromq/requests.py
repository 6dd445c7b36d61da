"""ZeroMQ requests: from the frames of a message to what a client asks for, and no further.

`docs/zeromq.md` is the protocol in words. A message is an envelope, an empty frame, and a body:
the command, the credential, the topic, and what the command needs. The envelope is the client's
own; it comes back with the answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from hubbub.domain.errors import Malformed, TooLarge
from hubbub.domain.names import check_name
from hubbub.protocols.zeromq.commands import COMMANDS, Command, read_text

MAX_ENVELOPE_FRAMES = 8
MAX_ENVELOPE_BYTES = 255
"""Of each of its frames; a routing id is never longer."""
MAX_CREDENTIAL_BYTES = 20 * 1024

# A token has three parts of base64url, the first of which opens a JSON object.
_TOKEN = re.compile(r"eyJ[\w-]*\.[\w-]+\.[\w-]*", re.ASCII)


class Credential(msgspec.Struct, frozen=True):
    """Neither: the caller is whoever its CURVE key says."""

    hub: str | None = None
    """None: the one that the token names."""
    token: str | None = None
    """None: the caller has no name."""

    def __repr__(self) -> str:
        return f"Credential(hub={self.hub!r}, token={'hidden' if self.token else None})"


class Request(msgspec.Struct, frozen=True):
    credential: Credential
    command: Command


def split_envelope(frames: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
    """The envelope, which ends with an empty frame, and the body behind it. An answer begins with
    the same envelope. Raises `Malformed`, `TooLarge`."""
    for index, frame in enumerate(frames[: MAX_ENVELOPE_FRAMES + 1]):
        if not frame:
            return list(frames[: index + 1]), list(frames[index + 1 :])
        if len(frame) > MAX_ENVELOPE_BYTES:
            break
    raise Malformed(
        "there is no empty frame before the command: a REQ socket sends it by itself, on a DEALER "
        f"socket it comes first, or after at most {MAX_ENVELOPE_FRAMES} frames of your own of up "
        f"to {MAX_ENVELOPE_BYTES} bytes"
    )


def read_request(body: Sequence[bytes]) -> Request:
    """Raises `BadRequest` and what is below it, naming the frame and what is wrong with it."""
    if not body:
        raise Malformed("the message has no command; send: command, credential, topic, …")
    name = read_text(body[0], "the command")
    found = COMMANDS.get(name)
    if found is None:
        raise Malformed(f"there is no command {name[:40]!r}; there are {', '.join(COMMANDS)}")
    least, names, read = found
    parts = body[2:]
    if not least <= len(parts) <= len(names):
        wanted = ["credential", *names[:least], *(f"[{each}]" for each in names[least:])]
        raise Malformed(
            f"{name} has {len(body) - 1} frames after the command; expected {', '.join(wanted)}"
        )
    credential = Credential()
    if len(body) > 1:
        credential = read_credential(body[1])
    elif name != "ping":
        raise Malformed(f"{name} has no credential; give a token or the name of a hub")
    return Request(credential, read(parts))


def read_credential(frame: bytes) -> Credential:
    """A token, `hub token`, the name of a hub, or nothing."""
    if len(frame) > MAX_CREDENTIAL_BYTES:
        raise TooLarge(f"the credential has {len(frame)} bytes; at most {MAX_CREDENTIAL_BYTES}")
    text = read_text(frame, "the credential")
    if not text:
        return Credential()
    hub, _, last = text.rpartition(" ")
    if _TOKEN.fullmatch(last):
        return Credential(check_name(hub, "hub") if hub else None, last)
    return Credential(check_name(text, "hub"))
