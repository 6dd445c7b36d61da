"""The real client behind a proxy, as reported by trusted proxies only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

_SCHEMES = ("http", "https")


class TrustedProxies:
    """Networks whose `X-Forwarded-For` and `X-Forwarded-Proto` are trusted."""

    def __init__(self, networks: Sequence[str]) -> None:
        self._networks: tuple[IPv4Network | IPv6Network, ...] = tuple(map(ip_network, networks))

    @property
    def any(self) -> bool:
        return bool(self._networks)

    def client_of(
        self, peer: str, headers: Mapping[bytes, bytes], encrypted: bool
    ) -> tuple[str, str]:
        """Address and scheme of the client. Proxies append the address that they saw, so the client
        is the last one that is not a trusted proxy; earlier ones are unverified claims of the
        client."""
        scheme = "https" if encrypted else "http"
        if not self._trusts(peer):
            return peer, scheme
        client = peer
        for given in reversed(_values(headers, b"x-forwarded-for")):
            if _address(given) is None:
                break
            client = given
            if not self._trusts(given):
                break
        protocols = _values(headers, b"x-forwarded-proto")
        if protocols and protocols[-1].lower() in _SCHEMES:
            scheme = protocols[-1].lower()
        return client, scheme

    def _trusts(self, text: str) -> bool:
        address = _address(text)
        return address is not None and any(address in network for network in self._networks)


def _values(headers: Mapping[bytes, bytes], name: bytes) -> list[str]:
    text = headers.get(name, b"").decode("latin-1")
    return [value.strip() for value in text.split(",") if value.strip()]


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text.strip("[]"))
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
