"""Quotas of hubs for the whole cluster. Each node enforces its share, which is computed from the
nodes' last reports: no request waits for another node."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from zlib import crc32

import msgspec

from hubbub.domain.errors import HUB_AWAY
from hubbub.domain.limits import TokenBucket
from hubbub.domain.quota_shares import Share, count_limit, rate_share
from hubbub.domain.rules import Quotas
from hubbub.engine.directory import ConfigurationOf
from hubbub.engine.hub import Hub
from hubbub.ports.clock import Clock
from hubbub.ports.quota_exchange import REPORT_SECONDS

_NO_QUOTAS = Quotas()
_NOTHING = Share()
_SMOOTHING = 0.5
"""The weight of the last interval in a demand."""


class ClusterQuotas:
    """The shares of one node; implements `ports.quota_exchange.QuotaExchange`. Runs on the event
    loop's thread."""

    def __init__(
        self, clock: Clock, configuration_of: ConfigurationOf, hubs: Mapping[str, Hub]
    ) -> None:
        """`hubs` are those in memory on this node."""
        self._clock = clock
        self._configuration_of = configuration_of
        self._hubs = hubs
        self._node = ""
        self._channels: Mapping[str, int] = {}
        self._others: dict[str, Mapping[str, Share]] = {}
        """Reports by node; empty if this node is alone, which then has the whole of each quota."""
        self._own: dict[str, Share] = {}
        """This node's last report, which it observes until the next one."""
        self._unsaid: set[str] = set()
        """Hubs whose first share was taken since the last report."""
        self._heard: set[str] = set()
        """Nodes that reported since this node's last report."""

    def share(self, node: str, channels: Mapping[str, int]) -> None:
        """Enables sharing with other nodes. `node` is this node's name; `channels` counts the
        channels that it owns, by hub."""
        self._node = node
        self._channels = channels

    # -- limits ---------------------------------------------------------------------------------

    def sessions(self, hub: str, quota: int) -> int:
        """The number of sessions that the hub may have on this node."""
        return self._share_of(hub).sessions if self._others else quota

    def channels(self, hub: str, quota: int) -> int:
        """The number of the hub's channels that this node may own."""
        return self._share_of(hub).channels if self._others else quota

    def tune(self, hub: Hub) -> None:
        """Sets the hub's rate limits to this node's share."""
        quotas = hub.configuration.settings.quotas
        elsewhere, own = self._elsewhere(hub.name), self._own.get(hub.name, _NOTHING)
        now = self._clock.monotonic()
        messages = [each.messages for each in elsewhere]
        hub.messages.tune(rate_share(quotas.messages_per_second, own.messages, messages), now)
        deliveries = [each.deliveries for each in elsewhere]
        hub.deliveries.tune(
            rate_share(quotas.deliveries_per_second, own.deliveries, deliveries), now
        )
        streams = [each.streams for each in elsewhere]
        hub.streams.tune(rate_share(quotas.stream_bytes_per_second, own.streams, streams), now)

    def _share_of(self, hub: str) -> Share:
        """This node's share; taken at first use, and included in the next report."""
        share = self._own.get(hub)
        if share is None:
            share = self._own[hub] = self._take(hub, None)
            self._unsaid.add(hub)
        return share

    # -- exchange -------------------------------------------------------------------------------

    def report(self) -> dict[str, Share]:
        """A share grows only after all other nodes have reported theirs since it last grew:
        otherwise two nodes could take the same part."""
        before, self._own = self._own, {}
        may_grow = self._heard >= self._others.keys()
        for name in {*self._hubs, *self._channels}:
            with contextlib.suppress(*HUB_AWAY):
                if self._configuration_of(name).settings.quotas != _NO_QUOTAS:
                    share = self._take(name, before.get(name))
                    if name in before and (name in self._unsaid or not may_grow):
                        share = _not_more(share, before[name])
                    self._own[name] = share
        for hub in self._hubs.values():
            if hub.limited:
                self.tune(hub)
        self._unsaid.clear()
        self._heard.clear()
        return self._own

    def hear(self, node: str, shares: Mapping[str, Share]) -> None:
        self._others[node] = shares
        self._heard.add(node)

    def lose(self, node: str) -> None:
        self._others.pop(node, None)

    def _take(self, name: str, before: Share | None) -> Share:
        quotas = self._configuration_of(name).settings.quotas
        hub, elsewhere, rank = self._hubs.get(name), self._elsewhere(name), self._rank(name)
        sessions = len(hub.sessions) if hub is not None else 0
        channels = self._channels.get(name, 0)
        return Share(
            count_limit(quotas.sessions, sessions, [each.sessions for each in elsewhere], rank),
            count_limit(quotas.channels, channels, [each.channels for each in elsewhere], rank),
            _smooth(before.messages if before else 0.0, hub.messages) if hub else 0.0,
            _smooth(before.deliveries if before else 0.0, hub.deliveries) if hub else 0.0,
            _smooth(before.streams if before else 0.0, hub.streams) if hub else 0.0,
        )

    def _elsewhere(self, hub: str) -> list[Share]:
        return [shares.get(hub, _NOTHING) for shares in self._others.values()]

    def _rank(self, hub: str) -> int:
        """The nodes take turns by the second for a remainder that cannot be divided."""
        names = sorted((self._node, *self._others))
        turn = crc32(hub.encode()) + int(self._clock.now())
        return (names.index(self._node) + turn) % len(names)


def _not_more(share: Share, before: Share) -> Share:
    return msgspec.structs.replace(
        share,
        sessions=min(share.sessions, before.sessions),
        channels=min(share.channels, before.channels),
    )


def _smooth(before: float, bucket: TokenBucket) -> float:
    asked = bucket.take_asked() / REPORT_SECONDS
    return round(before + _SMOOTHING * (asked - before), 3)
