"""Connections to checked addresses, for adapters that do not use HTTP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from ipaddress import ip_address

from hubbub.connectors.dialing import connect_to_one
from hubbub.connectors.resolving import Resolver
from hubbub.domain.callbacks import Reach


class CheckedDial:
    """Implements `ports.adapters.Dial` for one hub."""

    def __init__(self, resolver: Resolver, hub: str, reach: Callable[[], Reach]) -> None:
        """`reach()` is called for each connection."""
        self._resolver = resolver
        self._hub = hub
        self._reach = reach

    async def connect(self, host: str, port: int, timeout_seconds: float) -> socket.socket:
        addresses = self._resolver.resolve(self._hub, host, self._reach())
        return await connect_to_one(
            host, addresses, lambda address: _connect(address, port), timeout_seconds
        )


async def _connect(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ip_address(address).version == 6 else socket.AF_INET
    connected = socket.socket(family, socket.SOCK_STREAM)
    connected.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(connected, (address, port))
    except BaseException:
        connected.close()
        raise
    return connected
