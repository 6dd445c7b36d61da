"""Connections of adapters that do not speak HTTP, to addresses that were checked."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from ipaddress import ip_address

from hubbub.connectors.dialing import TRY_SECONDS
from hubbub.connectors.resolving import Resolver
from hubbub.domain.callbacks import Reach
from hubbub.ports.outgoing import SendFailed


class CheckedDial:
    """Implements `ports.adapters.Dial` for one hub."""

    def __init__(self, resolver: Resolver, hub: str, reach: Callable[[], Reach]) -> None:
        """`reach()` is asked at each connection."""
        self._resolver = resolver
        self._hub = hub
        self._reach = reach

    async def connect(self, host: str, port: int, timeout_seconds: float) -> socket.socket:
        try:
            async with asyncio.timeout(timeout_seconds):
                addresses = await self._resolver.resolve(self._hub, host, self._reach())
                for address in addresses[:-1]:
                    try:
                        async with asyncio.timeout(TRY_SECONDS):
                            return await _connect(address, port)
                    except (OSError, TimeoutError):
                        continue
                return await _connect(addresses[-1], port)
        except TimeoutError:
            raise SendFailed("timeout", f"{host!r} did not take the connection") from None
        except OSError as error:
            reason = error.strerror or "failed"
            raise SendFailed("connect", f"no connection to {host!r}: {reason}") from None


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
