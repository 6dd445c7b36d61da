"""Counters that survive a restart: what hubs did, by five minutes and in total."""

from __future__ import annotations

import msgspec

from hubbub.domain.fields import wire_name

SLOT_SECONDS = 300
ALL_HUBS = "*"
"""In place of a hub: the sum of all."""
HOURS = 24


class MeteredSlot(msgspec.Struct, frozen=True):
    """What one process adds to the five minutes of a hub that begin at `at` (seconds since 1970).
    Everything is added up but `sessions_before`, `channels` and `hubs`, of which the greatest
    stays."""

    hub: str
    at: int
    life: str
    """Names the process since its start."""
    messages_in: int = 0
    bytes_in: int = 0
    messages_out: int = 0
    bytes_out: int = 0
    sessions_opened: int = 0
    sessions_ended: int = 0
    """Sessions that were opened in this slot and have ended, whenever that was."""
    session_us: int = 0
    """How long those lasted together, in microseconds."""
    sessions_before: int = 0
    """Sessions that were open when the slot began."""
    channels: int = 0
    """Channels that were open at the same time."""
    hubs: int = 0
    """Hubs with an open session or channel; only in the sum of all."""


PEAKS = ("sessions_before", "channels", "hubs")
"""The fields of a slot of which the greatest stays."""


class CountedFigures(msgspec.Struct, frozen=True, rename=wire_name):
    """What a hub, or all of them, did in a time."""

    messages_in: int = 0
    bytes_in: int = 0
    messages_out: int = 0
    bytes_out: int = 0
    sessions_opened: int = 0
    sessions_ended: int = 0
    """Of these sessions, those that have ended."""
    session_us: int = 0
    """How long those lasted together, in microseconds."""


class FiguresAt(CountedFigures, frozen=True, rename=wire_name):
    """Those of one step. `active_sessions`, `active_channels` and `active_hubs` are the greatest of
    its five minutes; a session is active in each five minutes in which it was open."""

    at: int = 0
    """When the step began, in seconds since 1970."""
    active_sessions: int = 0
    active_channels: int = 0
    active_hubs: int = 0


class HourOfDay(msgspec.Struct, frozen=True, rename=wire_name):
    """Sessions opened in one hour of all days together."""

    hour: int
    sessions: int = 0
    ended: int = 0
    session_us: int = 0


class KeptFigures(msgspec.Struct, frozen=True, rename=wire_name):
    """The figures of a hub (`*`: of all) that outlive a restart."""

    hub: str
    since: int
    until: int
    step: int
    total: CountedFigures
    """Since the hub exists."""
    steps: list[FiguresAt]
    hours: list[HourOfDay]
    """By hour of the day, in UTC, between `since` and `until`."""


def slot_of(seconds: float) -> int:
    return int(seconds) // SLOT_SECONDS * SLOT_SECONDS
