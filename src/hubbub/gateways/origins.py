"""Checks which web pages may use the hub, by the browser's Origin header."""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

from hubbub.gateways.http import ReceivedRequest

_HOST = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]{2,45})\]|(?P<name>[A-Za-z0-9.-]{1,255}))(?::(?P<port>[0-9]{1,5}))?",
    re.ASCII,
)


def from_page(request: ReceivedRequest) -> bool:
    """Whether a web page may have sent the request. Browsers mark requests of pages, and scripts
    cannot remove the marks."""
    return b"origin" in request.headers or b"sec-fetch-site" in request.headers


def from_own_page(request: ReceivedRequest) -> bool:
    """Whether the marks say that the request came from a page of the same origin, or from a typed
    address. Requests without marks return False."""
    site, origin = request.header(b"sec-fetch-site"), request.header(b"origin")
    if origin is not None and not is_of_host(origin, request.header(b"host")):
        return False
    return site in ("same-origin", "none") if site is not None else origin is not None


def is_of_host(origin: str, host: str | None) -> bool:
    return host is not None and origin.partition("://")[2] == host


def origin_allowed(origin: str, host: str | None, allowed: Sequence[str]) -> bool:
    """An entry is `*`, `null`, an exact origin, or `scheme://host:*` for any port. A page of the
    hub's own host is always allowed."""
    return is_of_host(origin, host) or any(_matches(entry, origin) for entry in allowed)


def is_host(text: str) -> bool:
    """Whether the text can be a Host header."""
    return _HOST.fullmatch(text) is not None


def is_loopback(host: str | None) -> bool:
    """Whether a Host header names this machine: `localhost`, an address in 127.0.0.0/8 or `[::1]`,
    with or without a port. Other names do not count, since their DNS servers choose the address. A
    client without the header is no browser."""
    if host is None:
        return True
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    if found["v6"] is not None:
        return _is_address(found["v6"], IPv6Address)
    return found["name"].lower() == "localhost" or _is_address(found["name"], IPv4Address)


def names_address(host: str, local: tuple[str, int]) -> bool:
    """Whether a Host header names the local address and port of the connection, by number or as
    `localhost`. DNS names do not count: see `is_loopback`."""
    found = _HOST.fullmatch(host)
    if found is None or int(found["port"] or 80) != local[1]:
        return False
    if is_loopback(host):
        return ip_address(local[0]).is_loopback
    try:
        return ip_address(found["v6"] or found["name"]) == ip_address(local[0])
    except ValueError:
        return False


def _is_address(text: str, kind: type[IPv4Address | IPv6Address]) -> bool:
    try:
        address = kind(text)
    except ValueError:
        return False
    return address.is_loopback and getattr(address, "ipv4_mapped", None) is None


def _matches(entry: str, origin: str) -> bool:
    if entry in ("*", origin):
        return True
    if not entry.endswith(":*"):
        return False
    prefix = entry[:-2]
    if not origin.startswith(prefix):
        return False
    port = origin[len(prefix) :]
    return port == "" or (port[0] == ":" and port[1:].isdigit())
