"""The CURVE key of the ZeroMQ endpoint, created on first start in a private file."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from pathlib import Path

import zmq

from hubbub.files import write_private
from hubbub.server.settings.keys import SettingsError

KEY = "zeromq.curve.secretKeyFile"


def load_or_create(path: Path) -> bytes:
    """The secret key in Z85. Raises `SettingsError`, which never contains the key."""
    try:
        if not path.exists():
            with suppress(FileExistsError):  # another process was faster
                _create(path)
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
            secret = file.read(1024).strip()
    except OSError as error:
        raise SettingsError([f"{KEY} {path}: {error.strerror}"]) from None
    if mode & 0o077:
        raise SettingsError(
            [
                f"{KEY} {path} holds a secret key and others may use it (mode {mode:o}); run: "
                f"chmod 600 {shlex.quote(str(path))}"
            ]
        )
    try:
        zmq.curve_public(secret)
    except (ValueError, zmq.ZMQError):
        raise SettingsError(
            [
                f"{KEY} {path} holds no CURVE key (hidden); expected 40 characters of Z85, or no "
                "file at all, to get a new one"
            ]
        ) from None
    return secret


def _create(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    write_private(draft, zmq.curve_keypair()[1] + b"\n")
    try:
        os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
