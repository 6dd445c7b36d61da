"""The exchange between nodes that makes the quotas of hubs hold for the whole cluster."""

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
        """The shares that another node takes."""

    def lose(self, node: str) -> None:
        """A node is gone, and with it what it used."""
