"""A hub that keeps one document in memory, for tests of local copies: it applies changes, numbers
them, knows the puts of producers, and forgets old changes."""

from __future__ import annotations

import msgspec

from hubbub.client.copies.changes import Fetch, SavedChange
from hubbub.client.copies.replica import Fetched, Update
from hubbub.domain.documents.document import JsonDocument
from hubbub.domain.documents.operations import read_patch
from hubbub.domain.documents.values import DocumentLimits, stored_value
from hubbub.domain.errors import SequenceGap, SequenceReused, VersionMismatch

LIMITS = DocumentLimits()


class ModelHub:
    def __init__(self) -> None:
        self.document = JsonDocument()
        self.epoch = "e1"
        self.version = 0
        self.log: list[Update] = []
        """The changes of this epoch."""
        self.applied: list[tuple[str, str]] = []
        """Epoch and id of every change that had an effect, ever."""
        self.kept = 10**9
        self._puts: dict[str, list[tuple[bytes, str, int]]] = {}

    def begin_anew(self) -> None:
        self.epoch = f"e{int(self.epoch[1:]) + 1}"
        self.document, self.version, self.log = JsonDocument(), 0, []

    def change(self, change: SavedChange) -> tuple[str, int, Update | None]:
        """Epoch, version, and what subscribers are told. Raises what the hub refuses it with."""
        puts = self._puts.setdefault(change.producer, [])
        if change.sequence <= len(puts):
            ops, epoch, version = puts[change.sequence - 1]
            if ops != bytes(change.ops):
                raise SequenceReused("another change has this sequence")
            return epoch, version, None
        if change.sequence != len(puts) + 1:
            raise SequenceGap("a sequence is missing")
        expected, of = change.expected, change.sent_epoch
        if (expected is not None and expected != self.version) or (
            of and of != self.epoch and expected != 0
        ):
            error = VersionMismatch("another version")
            error.details |= {"epoch": self.epoch, "version": self.version}
            raise error
        update = self._apply(change.id, bytes(change.ops))
        puts.append((bytes(change.ops), self.epoch, self.version))
        return self.epoch, self.version, update

    def _apply(self, change_id: str, ops: bytes) -> Update | None:
        emitted = self.document.apply(read_patch(ops, LIMITS), LIMITS)
        if not emitted:
            return None
        self.version += 1
        self.applied.append((self.epoch, change_id))
        told = msgspec.Raw(b"[%b]" % b",".join(emitted))
        self.log.append(Update(self.epoch, self.version, change_id, told))
        return self.log[-1]

    def fetch(self, asked: Fetch) -> Fetched:
        same = not asked.epoch or asked.epoch == self.epoch
        since = asked.since
        if since is not None and same and self.version - self.kept <= since <= self.version:
            return Fetched(self.epoch, self.version, updates=tuple(self.log[since:]))
        return Fetched(self.epoch, self.version, stored_value(self.document.json()))
