"""Connections to servers named by tenants: the address is checked, and the connection goes to
exactly the checked address."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address
from typing import TypeVar

from hubbub.connectors.resolving import Resolver
from hubbub.domain.callbacks import LONGEST_URL, CallbackParts, Reach, check_callback, may_reach
from hubbub.ports.outgoing import SendFailed

TRY_SECONDS = 3.0
"""The timeout for one address, if there are others."""

P = TypeVar("P", bound=asyncio.Protocol)
T = TypeVar("T")


class Unprocessed(Exception):
    """The server did not process the request: it may be repeated on another connection."""


async def connect_to_one(
    host: str,
    addresses: Awaitable[Sequence[str]],
    connect: Callable[[str], Awaitable[T]],
    seconds: float,
) -> T:
    """Tries the addresses of a host in their order, `seconds` in all. Raises `SendFailed`."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            *others, last = await addresses
            for address in others:
                try:
                    async with asyncio.timeout(TRY_SECONDS):
                        return await connect(address)
                except (OSError, TimeoutError):
                    continue
            return await connect(last)
    except TimeoutError:
        raise SendFailed("timeout", f"{host!r} did not take the connection") from None
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", None) or error.reason or "no TLS"
        raise SendFailed("tls", f"no secure connection to {host!r}: {reason}") from None
    except OSError as error:
        reason = error.strerror or "failed"
        raise SendFailed("connect", f"no connection to {host!r}: {reason}") from None


class Dialer:
    def __init__(self, tls: ssl.SSLContext | None = None, protocols: Sequence[str] = ()) -> None:
        """`tls`: the TLS context; None: the system's authorities. `protocols`: offered protocols
        (ALPN)."""
        self._tls = tls
        self._protocols = protocols
        self.resolver = Resolver()

    async def check(self, hub: str, url: str, reach: Reach) -> None:
        """Raises `SendFailed` if the URL leads to a forbidden address. A name that does not resolve
        now passes: the address is checked again for every request."""
        parts = check_callback(url, LONGEST_URL)
        try:
            async with asyncio.timeout(TRY_SECONDS):
                await self.resolver.resolve(hub, parts.host, reach)
        except TimeoutError:
            pass
        except SendFailed as error:
            if error.word == "refused_address":
                raise

    async def connect(
        self,
        make: Callable[[], P],
        hub: str,
        parts: CallbackParts,
        reach: Reach,
        seconds: float,
    ) -> P:
        """Raises `SendFailed`."""
        addresses = self.resolver.resolve(hub, parts.host, reach)
        return await connect_to_one(
            parts.host,
            addresses,
            lambda address: self._connect_to(make, address, parts, reach),
            seconds,
        )

    async def _connect_to(
        self, make: Callable[[], P], address: str, parts: CallbackParts, reach: Reach
    ) -> P:
        """Verifies the peer's address after connecting."""
        loop = asyncio.get_running_loop()
        transport, connection = await loop.create_connection(
            make,
            address,
            parts.port,
            ssl=self._context() if parts.tls else None,
            server_hostname=parts.host.rstrip(".") if parts.tls else None,
        )
        peer = str(transport.get_extra_info("peername")[0])
        same = ip_address(peer) == ip_address(address)
        if not same or not may_reach(peer, reach):
            transport.abort()
            raise SendFailed("refused_address", f"{parts.host!r} answered from {peer}")
        return connection

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
            if self._protocols:
                self._tls.set_alpn_protocols(list(self._protocols))
        return self._tls

    async def close(self) -> None:
        await self.resolver.close()
