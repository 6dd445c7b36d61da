"""ZeroMQ requests: decodes the frames of a message.

`docs/zeromq.md` describes the protocol. A message consists of an envelope, an empty frame, and a
body: command, credential, topic, and the command's parameters. The envelope belongs to the client
and is returned with the response.
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
"""The limit of each frame of the envelope; a routing id is never longer."""
MAX_CREDENTIAL_BYTES = 20 * 1024

# A token has three parts of base64url, the first of which opens a JSON object.
_TOKEN = re.compile(r"eyJ[\w-]*\.[\w-]+\.[\w-]*", re.ASCII)


class ZeromqCredential(msgspec.Struct, frozen=True):
    """With neither field, the caller is identified by the CURVE key."""

    hub: str | None = None
    """None: the hub named in the token."""
    token: str | None = None
    """None: anonymous."""

    def __repr__(self) -> str:
        return f"Credential(hub={self.hub!r}, token={'hidden' if self.token else None})"


class ZeromqRequest(msgspec.Struct, frozen=True):
    credential: ZeromqCredential
    command: Command


def split_envelope(frames: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
    """The envelope, which ends with an empty frame, and the body after it. A response begins with
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


def read_request(body: Sequence[bytes]) -> ZeromqRequest:
    """Raises `BadRequest` or a subclass, which names the frame and the problem."""
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
    credential = ZeromqCredential()
    if len(body) > 1:
        credential = read_credential(body[1])
    elif name != "ping":
        raise Malformed(f"{name} has no credential; give a token or the name of a hub")
    return ZeromqRequest(credential, read(parts))


def read_credential(frame: bytes) -> ZeromqCredential:
    """A token, `hub token`, the name of a hub, or nothing."""
    if len(frame) > MAX_CREDENTIAL_BYTES:
        raise TooLarge(f"the credential has {len(frame)} bytes; at most {MAX_CREDENTIAL_BYTES}")
    text = read_text(frame, "the credential")
    if not text:
        return ZeromqCredential()
    hub, _, last = text.rpartition(" ")
    if _TOKEN.fullmatch(last):
        return ZeromqCredential(check_name(hub, "hub") if hub else None, last)
    return ZeromqCredential(check_name(text, "hub"))
