"""What nodes tell each other, so that quotas of hubs hold for all of them together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from hubbub.domain.quota_shares import Share

REPORT_SECONDS = 0.2


class QuotaExchange(Protocol):
    def report(self) -> dict[str, Share]:
        """What this node takes from now on, by hub. Say it to all others at once, every
        `REPORT_SECONDS`."""

    def hear(self, node: str, shares: Mapping[str, Share]) -> None:
        """What another node takes."""

    def lose(self, node: str) -> None:
        """A node is gone, and with it what it used."""
