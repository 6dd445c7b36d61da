"""New epochs for channels that go back to a backup, and the cursors that go with them."""

from __future__ import annotations

import secrets
from hashlib import blake2b

import msgspec

from hubbub.domain.cursors import CursorRecord


class NextEpochs:
    """Clients may have seen messages that a backup has not: under a new epoch their positions are
    void. Of the same channel and epoch, one object always makes the same."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(16)

    def epoch(self, hub: str, channel: str, epoch: str) -> str:
        """The epoch that comes after this one."""
        text = f"{hub}\x00{channel}\x00{epoch}".encode()
        return blake2b(text, digest_size=4, key=self._key).hexdigest()

    def cursor(self, hub: str, channel: str, state: bytes) -> bytes:
        """The state of a durable subscription that goes on where it stood. A cursor of an earlier
        epoch than its channel's stays one."""
        record = msgspec.msgpack.decode(state, type=CursorRecord)
        epoch = self.epoch(hub, channel, record.epoch)
        return msgspec.msgpack.encode(msgspec.structs.replace(record, epoch=epoch))
