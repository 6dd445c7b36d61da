"""A store that writes an audit entry together with a change."""

from __future__ import annotations

from typing import Protocol, Self

from hubbub.domain.audit import Audit


class Audited(Protocol):
    def audited(self, entry: Audit) -> Self:
        """Returns a view of the store for one write that stores the audit entry in the transaction
        of the write. If the write fails or changes nothing, the entry is not stored. Without an
        entry, returns the store itself."""
