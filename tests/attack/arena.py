"""What an attack gets to know, and what it reports. Both cross process boundaries."""

from __future__ import annotations

import ssl
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RED, BLUE = "red", "blue"
SCENERY = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Arena:
    """A running hub with two tenants, and the credentials of the hostile one.

    `source` is the address that the attack comes from. It is another one than the victim's, so
    that a limit by address does not meet both.
    """

    port: int
    tokens: Mapping[str, str]
    source: str
    scenery: int
    zeromq: int = 0
    mqtt: int = 0
    nats: str = ""
    certificate: str = ""
    scale: float = 1.0

    def many(self, count: int) -> int:
        """How many of something large this run uses."""
        return max(1, int(count * self.scale))

    def url(self, path: str, host: str = SCENERY) -> str:
        """A server that the tenants own: /ok, /fail and /hang do what they say."""
        return f"http://{host}:{self.scenery}{path}"

    def tls(self) -> ssl.SSLContext | None:
        return ssl.create_default_context(cafile=self.certificate) if self.certificate else None


@dataclass(slots=True)
class Findings:
    """What the hub answered, and what it should not have done."""

    answers: Counter[str] = field(default_factory=Counter)
    breaches: list[str] = field(default_factory=list)
    note: str = ""

    def expect(self, holds: object, breach: str) -> None:
        if not holds:
            self.breaches.append(breach)


Run = Callable[[Arena, float], Coroutine[Any, Any, Findings]]
"""The seconds are how long a flood goes on; what is done once takes as long as it takes."""


@dataclass(frozen=True, slots=True)
class Attack:
    """`point` groups attacks in the report. `needs`: `tls`, `nats`, `zeromq`, `mqtt`."""

    name: str
    point: str
    what: str
    run: Run
    needs: frozenset[str]


ATTACKS: dict[str, Attack] = {}


def attack(point: str, what: str, *needs: str) -> Callable[[Run], Run]:
    """Adds a function to the catalogue, under its name."""

    def register(run: Run) -> Run:
        name = run.__name__.replace("_", "-")
        ATTACKS[name] = Attack(name, point, what, run, frozenset(needs))
        return run

    return register


Practise = Callable[[Path, Path | None], Coroutine[Any, Any, Findings]]


@dataclass(frozen=True, slots=True)
class Drill:
    """An attack that starts its hubs itself. `run` gets a folder, and that of another version of
    the package or None."""

    name: str
    point: str
    what: str
    run: Practise


DRILLS: dict[str, Drill] = {}


def drill(point: str, what: str) -> Callable[[Practise], Practise]:
    """As `attack`."""

    def register(run: Practise) -> Practise:
        name = run.__name__.replace("_", "-")
        DRILLS[name] = Drill(name, point, what, run)
        return run

    return register
