"""Alarms: conditions and events that need an operator's attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from hubbub.engine.administration.survey import Glance
from hubbub.ports.clock import Clock

_LATE_SECONDS = 0.25
_LASTS_SECONDS = 60.0
"""How long the alarm about a single event is shown."""


class Alarm(msgspec.Struct, frozen=True, omit_defaults=True):
    """`since` is in ms since 1970."""

    id: str
    severity: str
    text: str
    since: int = 0
    node: str | None = None
    hub: str | None = None


class _Known(msgspec.Struct, eq=False):
    """The alarms of one hub, or of all, by id: their start, the last counter value, and the end of
    an alarm about an event."""

    since: dict[str, int] = {}
    counted: dict[str, int] = {}
    recent: dict[str, tuple[float, Alarm]] = {}


class Alarms:
    """An alarm keeps its id and its `since` while it lasts."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._hubs: dict[str, _Known] = {}

    def of(self, hub: str, glances: Sequence[Glance], silent: Sequence[str]) -> list[Alarm]:
        """The alarms of one hub or, if `hub` is empty, of all. A single hub sees no alarms about
        nodes. Nothing is stored for a hub that no node knows: its name may be invented."""
        if hub and not any(glance.known for glance in glances):
            self._hubs.pop(hub, None)
            return []
        known = self._hubs.setdefault(hub, _Known())
        found = [] if hub else list(_of_nodes(glances, silent))
        found += self._of_moments(known, hub, glances)
        now = int(self._clock.now() * 1000)
        known.since = {alarm.id: known.since.get(alarm.id, now) for alarm in found}
        return [msgspec.structs.replace(alarm, since=known.since[alarm.id]) for alarm in found]

    def _of_moments(self, known: _Known, hub: str, glances: Sequence[Glance]) -> Iterator[Alarm]:
        now = self._clock.monotonic()
        for glance in glances:
            for kind, severity, count, text in (
                ("slow", "warn", glance.slow_consumers, "clients cut off: they read too slowly"),
                ("refused", "info", glance.refused, "messages refused"),
            ):
                name = f"{kind}:{hub}:{glance.node}"
                more = count - known.counted.get(name, count)
                known.counted[name] = count
                if more > 0:
                    said = f"{more} {text}"
                    alarm = Alarm(name, severity, said, node=glance.node, hub=hub or None)
                    known.recent[name] = (now + _LASTS_SECONDS, alarm)
                end, last = known.recent.get(name, (now, None))
                if last is not None and end > now:
                    yield last


def _of_nodes(glances: Sequence[Glance], silent: Sequence[str]) -> Iterator[Alarm]:
    for node in silent:
        yield Alarm(f"silent:{node}", "bad", f"node {node} does not answer", node=node)
    for glance in glances:
        node = glance.node
        if glance.late_seconds > _LATE_SECONDS:
            text = f"node {node} is busy: its turns come {glance.late_seconds:.1f} s late"
            yield Alarm(f"late:{node}", "warn", text, node=node)
        if glance.draining:
            yield Alarm(f"draining:{node}", "warn", f"node {node} is shutting down", node=node)
