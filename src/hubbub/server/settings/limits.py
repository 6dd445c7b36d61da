"""The limits on callers; `keys` says how to read them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

MOST = 10_000_000


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on callers at every door, on each node. IPv6 addresses count by their /64."""

    failed_credentials_per_minute: Annotated[int, Meta(ge=0, le=MOST)] = 30
    """Wrong tokens, passwords and keys that one address may bring to one hub each minute, and at
    one moment; to all hubs together three times as many. Tokens that were right before are not
    concerned; 0 means no limit."""
    anonymous_per_second: Annotated[int, Meta(ge=0, le=MOST)] = 100
    """Requests and published messages without an identity that one address may send each second
    over HTTP and ZeroMQ, and twice as many at one moment; over all of its WebSocket sessions ten
    times as many; 0 means no limit."""
    client_per_second: Annotated[int, Meta(ge=0, le=MOST)] = 100
    """The same of one user, or one token without a user, of the level client."""
    service_per_second: Annotated[int, Meta(ge=0, le=MOST)] = 20_000
    """The same of one user, or one token without a user, of the levels service and admin, whose
    sessions have no limit."""
    connections_per_second: Annotated[int, Meta(ge=0, le=MOST)] = 200
    """WebSocket and Server-Sent Events connections that one address may open each second, and ten
    times as many at one moment; 0 means no limit."""
