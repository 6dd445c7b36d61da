"""What a soak does, and when."""

from __future__ import annotations

from dataclasses import dataclass

HUB = "soak"
STORED = ("log:0", "log:1", "log:2", "log:3")
LIVE = ("live:0", "live:1", "live:2", "live:3")
GATED = ("gate:0", "gate:1")
"""Channels whose rules change all the time; who follows them is sent away and comes back."""


@dataclass(frozen=True, slots=True)
class Plan:
    """First lives that end soon, by a signal or by a kill in turns; then a long one, in which,
    after a while to warm up, memory and descriptors are watched."""

    seconds: float
    seed: int = 1
    short_lives: int = 6
    share_of_short_lives: float = 0.4
    share_of_warm_up: float = 0.3
    followers_per_channel: int = 2
    publishes_per_second: float = 60.0
    visits_per_second: float = 6.0
    most_growth_share: float = 0.05
    most_growth_kilobytes: float = 3 * 1024

    @property
    def short_life_seconds(self) -> float:
        return self.seconds * self.share_of_short_lives / self.short_lives

    @property
    def long_life_seconds(self) -> float:
        return self.seconds * (1 - self.share_of_short_lives)

    @property
    def warm_up_seconds(self) -> float:
        return self.long_life_seconds * self.share_of_warm_up
