"""A store that writes an audit entry together with a change."""

from __future__ import annotations

from typing import Protocol, Self

from hubbub.domain.audit import Audit


class Audited(Protocol):
    def audited(self, entry: Audit) -> Self:
        """The same store for one write: the entry is stored in the write's own transaction, and not
        at all if the write fails or changes nothing. Without an entry, the store itself."""
