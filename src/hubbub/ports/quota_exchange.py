"""The exchange between nodes that enforces hubs' quotas across the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from hubbub.domain.quota_shares import Share

REPORT_SECONDS = 0.2


class QuotaExchange(Protocol):
    def report(self) -> dict[str, Share]:
        """This node's shares from now on, by hub. Send them to all other nodes at once, every
        `REPORT_SECONDS`."""

    def hear(self, node: str, shares: Mapping[str, Share]) -> None:
        """Records the shares of another node."""

    def lose(self, node: str) -> None:
        """Forgets a lost node and its shares."""
