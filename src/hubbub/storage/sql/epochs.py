"""New epochs for channels restored from a backup, and cursors adapted to them."""

from __future__ import annotations

import secrets
from hashlib import blake2b

import msgspec

from hubbub.domain.cursors import CursorRecord


class NextEpochs:
    """Clients may have seen messages that the backup lacks; a new epoch invalidates their
    positions. Deterministic per object: the same channel and epoch always get the same new
    epoch."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(16)

    def epoch(self, hub: str, channel: str, epoch: str) -> str:
        """The successor of this epoch."""
        text = f"{hub}\x00{channel}\x00{epoch}".encode()
        return blake2b(text, digest_size=4, key=self._key).hexdigest()

    def cursor(self, hub: str, channel: str, state: bytes) -> bytes:
        """A cursor's state with the new epoch, at the same position. A cursor that already had an
        outdated epoch keeps an outdated one."""
        record = msgspec.msgpack.decode(state, type=CursorRecord)
        epoch = self.epoch(hub, channel, record.epoch)
        return msgspec.msgpack.encode(msgspec.structs.replace(record, epoch=epoch))
