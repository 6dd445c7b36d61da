"""Bounds the hubs that strangers bring into being: hubs created on first use in which nobody has
authenticated yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from hubbub.domain.errors import Overloaded
from hubbub.domain.limits import network_of
from hubbub.engine.hub import Hub

_SHARE = 10
"""One network may have this part of the most hubs."""
_BETWEEN_LOOKS = 1.0
"""Seconds between two searches for hubs that need not be counted any more."""


class UnprovenHubs:
    """The unproven hubs of one node, with the networks whose callers created them."""

    def __init__(
        self,
        most: int,
        hubs: dict[str, Hub],
        drop: Callable[[str], None],
        declared: Callable[[str], bool],
    ) -> None:
        """`hubs` are all of the node; `drop` unloads one without sessions; `declared`: the hub has
        settings of its own."""
        self._most = most
        self._hubs = hubs
        self._drop = drop
        self._declared = declared
        self._networks: dict[str, str] = {}
        """By hub."""
        self._counts: Counter[str] = Counter()
        self._next_look = 0.0

    def __len__(self) -> int:
        return len(self._networks)

    def admit(self, name: str, address: str, now: float) -> None:
        """A hub is about to be created. Raises `Overloaded` if there are too many."""
        network = network_of(address) if address else ""
        share = max(1, self._most // _SHARE)
        if len(self._networks) >= self._most or self._counts[network] >= share:
            self._look(now)
            alone = self._counts[network] >= share
            if alone or len(self._networks) >= self._most:
                raise Overloaded(
                    f"hub {name!r} cannot be created now: {'this address' if alone else 'clients'} "
                    f"created {share if alone else self._most} hubs in which nobody has "
                    "authenticated (engine.maxUnprovenHubs); try again later, or have the hub "
                    "declared or created by a service",
                    _BETWEEN_LOOKS,
                )
        self._networks[name] = network
        self._counts[network] += 1

    def _look(self, now: float) -> None:
        """Forgets hubs that are gone or proven, and unloads those that nobody uses."""
        if now < self._next_look:
            return
        self._next_look = now + _BETWEEN_LOOKS
        for name, network in list(self._networks.items()):
            hub = self._hubs.get(name)
            if hub is not None and not hub.proven and not self._declared(name):
                if hub.sessions or hub.feeds or hub.idle_since > now - _BETWEEN_LOOKS:
                    continue
                self._drop(name)
            del self._networks[name]
            self._counts[network] -= 1
            if not self._counts[network]:
                del self._counts[network]
