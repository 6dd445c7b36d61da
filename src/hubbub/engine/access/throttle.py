"""Limits on callers, the same at every door: by address, by hub and address, and by identity."""

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
"""Addresses or identities that each table of buckets holds."""
_ALL_HUBS = 3
"""How many times the failures at one hub an address may have at all hubs together."""
_ALL_SESSIONS = 10
"""How many times the pace of one session those of one caller may have together."""


_MOST = 10_000_000


class CallerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on callers at every door, on each node. IPv6 addresses count by their /64."""

    failed_credentials_per_minute: Annotated[int, Meta(ge=0, le=_MOST)] = 30
    """Wrong tokens, passwords and keys that one address may bring to one hub each minute, and at
    one moment; to all hubs together three times as many. Tokens that were right before are not
    concerned; 0 means no limit."""
    anonymous_per_second: Annotated[int, Meta(ge=0, le=_MOST)] = 100
    """Requests and published messages without an identity that one address may send each second
    over HTTP and ZeroMQ, and twice as many at one moment; over all of its WebSocket sessions ten
    times as many; 0 means no limit."""
    client_per_second: Annotated[int, Meta(ge=0, le=_MOST)] = 100
    """The same of one user, or one token without a user, of the level client."""
    service_per_second: Annotated[int, Meta(ge=0, le=_MOST)] = 20_000
    """The same of one user, or one token without a user, of the levels service and admin, whose
    sessions have no limit."""
    connections_per_second: Annotated[int, Meta(ge=0, le=_MOST)] = 200
    """WebSocket and Server-Sent Events connections that one address may open each second, and ten
    times as many at one moment; 0 means no limit."""


class Caller(msgspec.Struct, frozen=True, gc=False):
    """Whose requests are counted together, and where."""

    key: str | tuple[str, str]
    buckets: KeyedBuckets
    nobody: bool
    """An address without an identity."""


class Throttle:
    """Callers without an address (`""`), which are inside this process, have no limits."""

    def __init__(self, clock: Clock, limits: CallerLimits, logins_per_minute: float) -> None:
        """`logins_per_minute` are those of administrators, from one address."""
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
        """Around everything that may find a credential to be wrong. Each counts before it is tried,
        and does not after all where it was right, or is `genuine` though it was refused. Raises
        `RateLimited`."""
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
        """A request, or `amount` messages in one. Raises `RateLimited`."""
        caller = self.caller(hub, identity, address)
        if caller is not None:
            self.admit_caller(caller, amount)

    def caller(self, hub: str, identity: Identity, address: str) -> Caller | None:
        """As whom requests are counted; None: they are not. Holds as long as the hub runs."""
        return _caller(self._requests, hub, identity, address)

    def admit_caller(self, caller: Caller, amount: float = 1) -> None:
        """The same as `admit`, where it is known who asks. Raises `RateLimited`."""
        wait = caller.buckets.take(caller.key, amount, self._clock.monotonic())
        if wait:
            who = "this address without a token" if caller.nobody else "this caller"
            raise limited(f"too many requests come from {who}", wait)

    def admit_in_session(self, hub: str, identity: Identity, address: str) -> None:
        """A request of a session, which has a limit of its own: bounds what one caller can do with
        many sessions. Raises `RateLimited`."""
        if not identity.trusted:
            caller = _caller(self._sessions, hub, identity, address)
            if caller is not None:
                self.admit_caller(caller)

    def connect(self, address: str) -> None:
        """A new live connection. Raises `RateLimited`."""
        if address:
            wait = self._connections.take(network_of(address), 1, self._clock.monotonic())
            if wait:
                raise limited("too many connections come from this address", wait)

    def log_in(self, address: str) -> None:
        """An administrator who is about to try. Raises `RateLimited`."""
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
