"""Rate limits of callers, shared by all gateways: by address, by hub and address, and by
identity."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import msgspec
from msgspec import Meta

from hubbub.domain.errors import Denied, RateLimited, RestoreFailed
from hubbub.domain.limits import KeyedBuckets, network_of
from hubbub.domain.permissions import Identity, Level
from hubbub.ports.clock import Clock

REMEMBERED_KEYS = 8192
"""Maximum number of addresses or identities in each table of buckets."""
_ALL_HUBS = 3
"""Factor: failures of one address at all hubs together, relative to one hub."""
_ALL_SESSIONS = 10
"""Factor: rate of all sessions of one caller together, relative to one session."""


_MOST = 10_000_000


class CallerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Rate limits of callers at every gateway, on each node. IPv6 addresses count by their /64."""

    failed_credentials_per_minute: Annotated[int, Meta(ge=0, le=_MOST)] = 30
    """Wrong tokens, passwords and keys that one address may send to one hub per minute, also in a
    burst; three times as many to all hubs together. Tokens that were verified before are exempt; 0
    means no limit."""
    anonymous_per_second: Annotated[int, Meta(ge=0, le=_MOST)] = 100
    """Requests and published messages without an identity that one address may send per second over
    HTTP and ZeroMQ, twice as many in a burst, and ten times as many over all of its WebSocket
    sessions; 0 means no limit."""
    client_per_second: Annotated[int, Meta(ge=0, le=_MOST)] = 100
    """The same limit for one user, or one token without a user, of the level client."""
    service_per_second: Annotated[int, Meta(ge=0, le=_MOST)] = 20_000
    """The same limit for one user, or one token without a user, of the levels service and admin,
    whose sessions have no limit."""
    connections_per_second: Annotated[int, Meta(ge=0, le=_MOST)] = 200
    """WebSocket and Server-Sent Events connections that one address may open per second, ten times
    as many in a burst; 0 means no limit."""


class Caller(msgspec.Struct, frozen=True, gc=False):
    """The key under which requests are counted, and its table."""

    key: str | tuple[str, str]
    buckets: KeyedBuckets
    nobody: bool
    """An address without an identity."""


class Throttle:
    """Callers without an address (`""`) are inside this process and have no limits."""

    def __init__(self, clock: Clock, limits: CallerLimits, logins_per_minute: float) -> None:
        """`logins_per_minute` limits the logins of administrators from one address."""
        self._clock = clock
        failures = limits.failed_credentials_per_minute
        self._failures = _table(failures / 60 * _ALL_HUBS, failures * _ALL_HUBS)
        self._hub_failures = _table(failures / 60, failures)
        logins = logins_per_minute
        self._logins = _table(logins / 60, logins)
        self._all_logins = _table(logins / 6, logins * 10)
        self._connections = _table(
            limits.connections_per_second, 10 * limits.connections_per_second
        )
        self._requests = {
            None: _pace(limits.anonymous_per_second),
            Level.CLIENT: _pace(limits.client_per_second),
            Level.VIEWER: _pace(limits.service_per_second),
            Level.SERVICE: _pace(limits.service_per_second),
            Level.ADMIN: _pace(limits.service_per_second),
        }
        self._sessions = {
            None: _pace(_ALL_SESSIONS * limits.anonymous_per_second),
            Level.CLIENT: _pace(_ALL_SESSIONS * limits.client_per_second),
            Level.VIEWER: _pace(_ALL_SESSIONS * limits.client_per_second),
        }

    @contextmanager
    def guess(
        self, hub: str, address: str, genuine: Callable[[], bool] = lambda: False
    ) -> Iterator[None]:
        """A context for checking a credential. An attempt counts before it is made; it is refunded
        if the credential was right, or is `genuine` though it was refused. Raises `RateLimited`."""
        if not address:
            yield
            return
        network, now = network_of(address), self._clock.monotonic()
        key = (hub, network)
        wait = self._hub_failures.take(key, 1, now)
        if not wait and (wait := self._failures.take(network, 1, now)):
            self._hub_failures.give_back(key, 1)
        if wait:
            raise limited("too many wrong credentials came from this address", wait)
        wrong = False
        try:
            yield
        except (Denied, RestoreFailed):
            wrong = not genuine()
            raise
        finally:
            if not wrong:
                self._hub_failures.give_back(key, 1)
                self._failures.give_back(network, 1)

    def admit(self, hub: str, identity: Identity, address: str, amount: float = 1) -> None:
        """Counts a request, or `amount` messages in one. Raises `RateLimited`."""
        caller = self.caller(hub, identity, address)
        if caller is not None:
            self.admit_caller(caller, amount)

    def caller(self, hub: str, identity: Identity, address: str) -> Caller | None:
        """The key under which a caller's requests are counted, valid while the hub runs; None: no
        limit."""
        return _caller(self._requests, hub, identity, address)

    def admit_caller(self, caller: Caller, amount: float = 1) -> None:
        """Like `admit`, for a known caller. Raises `RateLimited`."""
        wait = caller.buckets.take(caller.key, amount, self._clock.monotonic())
        if wait:
            who = "this address without a token" if caller.nobody else "this caller"
            raise limited(f"too many requests come from {who}", wait)

    def admit_in_session(self, hub: str, identity: Identity, address: str) -> None:
        """Counts a request of a session, besides the session's own limit, so that many sessions of
        one caller stay bounded. Raises `RateLimited`."""
        if not identity.trusted:
            caller = _caller(self._sessions, hub, identity, address)
            if caller is not None:
                self.admit_caller(caller)

    def connect(self, address: str) -> None:
        """Counts a new long-lived connection. Raises `RateLimited`."""
        if address:
            wait = self._connections.take(network_of(address), 1, self._clock.monotonic())
            if wait:
                raise limited("too many connections come from this address", wait)

    def check_connect(self, address: str) -> None:
        """Like `connect`, without counting. Raises `RateLimited`."""
        self.connect(address)
        if address:
            self._connections.give_back(network_of(address), 1)

    def log_in(self, address: str) -> None:
        """Counts an administrator's login attempt. Raises `RateLimited`."""
        now = self._clock.monotonic()
        wait = self._logins.take(network_of(address), 1, now) or self._all_logins.take("", 1, now)
        if wait:
            raise limited("too many logins were tried", wait)


def limited(what: str, seconds: float) -> RateLimited:
    return RateLimited(f"{what}; try again in {max(seconds, 0.001):.3g} s", seconds)


def _caller(
    tables: dict[Level | None, KeyedBuckets], hub: str, identity: Identity, address: str
) -> Caller | None:
    name = identity.user_id or identity.token_id
    nobody = name is None and not identity.authenticated
    buckets = tables[None if nobody else identity.level]
    if not address or not buckets.rate:
        return None
    key = network_of(address) if nobody else (hub, name or network_of(address))
    return Caller(key, buckets, nobody)


def _pace(per_second: float) -> KeyedBuckets:
    return _table(per_second, 2 * per_second)


def _table(rate: float, burst: float) -> KeyedBuckets:
    return KeyedBuckets(rate, burst, REMEMBERED_KEYS)
