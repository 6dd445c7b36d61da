"""Connections to servers that strangers named: the address is checked, and it is that very address
that is connected to."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import TypeVar

from hubbub.connectors.resolving import Resolver
from hubbub.domain.callbacks import LONGEST_URL, CallbackParts, Reach, check_callback, may_reach
from hubbub.ports.outgoing import SendFailed

TRY_SECONDS = 3.0
"""For one address, where there are others."""

P = TypeVar("P", bound=asyncio.Protocol)


class Unprocessed(Exception):
    """The server did not look at the request: it may be sent over another connection."""


class Dialer:
    def __init__(self, tls: ssl.SSLContext | None = None, protocols: Sequence[str] = ()) -> None:
        """`tls`: whom to trust; None: those that the system trusts. `protocols`: what is offered
        beneath HTTP (ALPN)."""
        self._tls = tls
        self._protocols = protocols
        self.resolver = Resolver()

    async def check(self, hub: str, url: str, reach: Reach) -> None:
        """Raises `SendFailed` where the URL leads to an address out of reach. A name that does not
        resolve now passes: the address is checked again whenever something is sent."""
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
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                addresses = await self.resolver.resolve(hub, parts.host, reach)
                for address in addresses[:-1]:
                    try:
                        async with asyncio.timeout(TRY_SECONDS):
                            return await self._connect_to(make, address, parts, reach)
                    except (OSError, TimeoutError):
                        continue
                return await self._connect_to(make, addresses[-1], parts, reach)
        except TimeoutError:
            raise SendFailed("timeout", f"{parts.host!r} did not take the connection") from None
        except ssl.SSLError as error:
            reason = getattr(error, "verify_message", None) or error.reason or "no TLS"
            raise SendFailed("tls", f"no secure connection to {parts.host!r}: {reason}") from None
        except OSError as error:
            reason = error.strerror or "failed"
            raise SendFailed("connect", f"no connection to {parts.host!r}: {reason}") from None

    async def _connect_to(
        self, make: Callable[[], P], address: str, parts: CallbackParts, reach: Reach
    ) -> P:
        """Checks once more who is there: it is the address that was checked, or nobody."""
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
