"""The keys that sign the hub's own tokens, created on first start in a private file.

Each purpose has a list of keys: the first signs, all verify. So a key can be rotated without
invalidating existing tokens.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import os
import secrets
import shlex
from pathlib import Path
from typing import Literal

import msgspec

from hubbub.engine.access.tokens import KeyRing, SigningKey
from hubbub.files import locked, sync, write_private
from hubbub.server.settings.keys import Auth, SettingsError, SigningSecret

logger = logging.getLogger(__name__)

FILE_NAME = "secrets.json"
FORMAT_VERSION = 1
KEY_BYTES = 64  # enough for HS512
MIN_KEY_BYTES = 32


class SecretsError(SettingsError):
    """The key file is unusable; the message says what to do."""

    def __init__(self, problem: str) -> None:
        super().__init__([problem])


Purpose = Literal["session", "admin"]
Secrets = KeyRing


class _StoredKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    secret: str


class _SecretFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    session: list[_StoredKey]
    admin: list[_StoredKey]


def load_or_create(data_dir: Path, auth: Auth | None = None) -> Secrets:
    """Loads this data folder's keys, creating them if necessary.

    A secret in the settings replaces the file's keys for its purpose, which then no longer verify.
    Processes that start simultaneously agree on one file.
    """
    auth = auth or Auth()
    session, admin = _configured(auth.session), _configured(auth.admin)
    if session and admin:
        return Secrets(session=session, admin=admin)
    path = data_dir / FILE_NAME
    if not path.exists():
        _create(path)
        logger.info(
            "created new signing keys in %s; tokens signed with other keys are invalid", path
        )
    stored = _read(path)
    return Secrets(session=session or stored.session, admin=admin or stored.admin)


def rotate(data_dir: Path, purpose: Purpose, keep: int = 2) -> str:
    """Adds a new first key for a purpose; returns its id. It signs after the next start, or as soon
    as a running hub reloads the file (within a minute, and at once for a token that names the new
    key). Tokens of the last `keep` keys stay valid, older ones do not.

    If the settings contain the secret, rotate there: `secret` becomes `previousSecret`.
    """
    path = data_dir / FILE_NAME
    if not path.exists():
        _create(path)
    with locked(data_dir):
        _read(path)
        content = msgspec.json.decode(path.read_bytes(), type=_SecretFile)
        new = _new_key()
        keys = [new, *getattr(content, purpose)[:keep]]
        changed = msgspec.structs.replace(content, **{purpose: keys})
        draft = path.with_name(f".{FILE_NAME}.{secrets.token_hex(8)}")
        try:
            write_private(draft, msgspec.json.format(msgspec.json.encode(changed)) + b"\n")
            draft.replace(path)
            sync(path.parent)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise SecretsError(f"{path} cannot be written: {error.strerror}") from None
    return new.id


def _configured(signing: SigningSecret) -> tuple[SigningKey, ...]:
    return tuple(
        SigningKey(hashlib.sha256(b"hubbub key id:" + key).hexdigest()[:16], key)
        for secret in (signing.secret, signing.previous_secret)
        if secret is not None
        for key in (secret.reveal().encode(),)
    )


def _create(path: Path) -> None:
    """Writes new keys to a temporary file, then links it into place, unless another process was
    faster: `link` never replaces a file."""
    content = _SecretFile(version=FORMAT_VERSION, session=[_new_key()], admin=[_new_key()])
    draft = path.with_name(f".{FILE_NAME}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            write_private(draft, msgspec.json.format(msgspec.json.encode(content)) + b"\n")
            os.link(draft, path)
        except FileExistsError:
            return
        finally:
            draft.unlink(missing_ok=True)
        sync(path.parent)
    except OSError as error:
        raise SecretsError(
            f"{path} cannot be written: {error.strerror}; make the folder storage.path writable, "
            "or set both auth.session.secret and auth.admin.secret"
        ) from None


def _new_key() -> _StoredKey:
    return _StoredKey(
        id=secrets.token_hex(8),
        secret=base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode(),
    )


def _read(path: Path) -> Secrets:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
            data = file.read()
    except OSError as error:
        raise SecretsError(f"{path} cannot be read: {error.strerror}") from None
    if mode & 0o077:
        raise SecretsError(
            f"{path} holds signing keys and others may use it (mode {mode:o}); run: "
            f"chmod 600 {shlex.quote(str(path))}"
        )
    try:
        content = msgspec.json.decode(data, type=_SecretFile)
        if content.version != FORMAT_VERSION:
            raise ValueError(f"its version is {content.version}, not {FORMAT_VERSION}")
        return Secrets(session=_usable(content.session), admin=_usable(content.admin))
    except (msgspec.DecodeError, ValueError) as error:
        raise SecretsError(
            f"{path} is damaged: {error}; restore it from a backup, or remove it to get new keys "
            "(tokens issued so far stop working)"
        ) from None


def _usable(stored: list[_StoredKey]) -> tuple[SigningKey, ...]:
    """The keys of one purpose. Errors never contain a key."""
    if not stored:
        raise ValueError("a list of keys is empty")
    if len({key.id for key in stored}) < len(stored):
        raise ValueError("two keys have the same id")
    return tuple(SigningKey(key.id, _decoded(key)) for key in stored)


def _decoded(key: _StoredKey) -> bytes:
    try:
        secret = base64.b64decode(key.secret, validate=True)
    except binascii.Error:
        raise ValueError(f"the key {key.id!r} is not base64") from None
    if len(secret) < MIN_KEY_BYTES:
        raise ValueError(f"the key {key.id!r} has {len(secret)} bytes, not {MIN_KEY_BYTES} or more")
    return secret
