"""The document of a channel in its owner's memory."""

from __future__ import annotations

import msgspec

from hubbub.domain.documents.changes import DocumentState
from hubbub.domain.documents.document import JsonDocument
from hubbub.domain.documents.steps import Steps
from hubbub.domain.errors import HubbubError
from hubbub.engine.large_work import SMALL_BYTES
from hubbub.engine.room_state import RoomState
from hubbub.ports.bus import Attachment, HeadAnnounced

SMALL_WORK = 32 * 1024 * 128
"""The bytes of a small document times those of the changes to it: each operation may look through
all of the document."""


class ChannelDocument(RoomState):
    """While an append is in progress, `document` and `version` are ahead of the disk; `stored` is
    the state on disk, which may be disclosed."""

    __slots__ = (
        "_text",
        "at",
        "bytes_since",
        "changes_since",
        "damage",
        "document",
        "epoch",
        "saving",
        "stored",
        "version",
        "visits_before",
    )

    def __init__(self, epoch: str) -> None:
        self.begin_anew(epoch, 0)
        self.stored = self.state()

    def begin_anew(self, epoch: str, at: int) -> None:
        """Starts again as `{}`, in a new epoch."""
        self.document = JsonDocument()
        self.epoch = epoch
        self.version = 0
        self.at = at
        """Time of the last change, in milliseconds since 1970; never decreases."""
        self.changes_since = 0
        """Counted since the last snapshot, like the next fields."""
        self.bytes_since = 0
        self.visits_before = 0
        self.saving = False
        """A snapshot is being stored."""
        self.damage: HubbubError | None = None
        """Why the document cannot be read: `document` is not what is stored."""
        self._text: bytes | None = None

    @property
    def size(self) -> int:
        return self.document.size

    def takes_long(self, queued_bytes: int) -> bool:
        return queued_bytes > SMALL_BYTES or queued_bytes * self.size > SMALL_WORK

    def attach(self, attachment: Attachment) -> Attachment:
        return msgspec.structs.replace(attachment, document=self.stored)

    def announce(self, head: HeadAnnounced) -> HeadAnnounced:
        return msgspec.structs.replace(head, document=self.stored)

    def state(self) -> DocumentState:
        return DocumentState(self.epoch, self.version, self.at, self.document.size)

    @property
    def visits_since(self) -> int:
        """The number of values that the changes have visited, which reading them repeats."""
        return self.document.visits - self.visits_before

    def text_steps(self) -> Steps[bytes]:
        """The document's JSON text as of the first step, computed once per version."""
        if self._text is not None:
            return self._text
        version = self.version, self.epoch
        text = yield from self.document.json_steps()
        if version == (self.version, self.epoch):
            self._text = text
        return text

    def moved(self, at: int, added_bytes: int) -> None:
        """A change was applied."""
        self.version += 1
        self.at = at
        self.changes_since += 1
        self.bytes_since += added_bytes
        self._text = None
