"""The document of a channel in its owner's memory."""

from __future__ import annotations

from hubbub.domain.documents.changes import DocumentState
from hubbub.domain.documents.document import Document


class ChannelDocument:
    """While an append is under way, `document` and `version` are ahead of the disk; `stored` is
    what anyone may be told: where the document stands on disk."""

    __slots__ = (
        "_text",
        "at",
        "bytes_since",
        "changes_since",
        "document",
        "epoch",
        "saving",
        "stored",
        "version",
    )

    def __init__(self, epoch: str) -> None:
        self.begin_anew(epoch, 0)
        self.stored = self.state()

    def begin_anew(self, epoch: str, at: int) -> None:
        """As `{}`, of which nobody has seen another version in this epoch."""
        self.document = Document()
        self.epoch = epoch
        self.version = 0
        self.at = at
        """When it was changed last, in milliseconds since 1970; never falls."""
        self.changes_since = 0
        """Since the last snapshot, as the next field."""
        self.bytes_since = 0
        self.saving = False
        """A snapshot is on its way to the store."""
        self._text: bytes | None = None

    def state(self) -> DocumentState:
        return DocumentState(self.epoch, self.version, self.at, self.document.size)

    def text(self) -> bytes:
        """The document's JSON text, made once for each version."""
        if self._text is None:
            self._text = self.document.json()
        return self._text

    def moved(self, at: int, added_bytes: int) -> None:
        """A change was applied."""
        self.version += 1
        self.at = at
        self.changes_since += 1
        self.bytes_since += added_bytes
        self._text = None
