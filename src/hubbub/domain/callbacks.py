"""Callbacks: the URLs that a hub sends requests to, and the addresses that it may connect to."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Literal
from urllib.parse import quote, urlsplit

import msgspec

from hubbub.domain.errors import BadRequest

MAX_URL_CHARS = 2000
LONGEST_URL = 8192
"""A callback may be longer than a URL in a request: the hub appends the topic to its query."""

_UNUSABLE = re.compile("[\x00-\x20\x7f-\x9f\ud800-\udfff\\\\]")
_HOST = re.compile(r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9_-]*[a-z0-9])?)*\.?")
_SAFE = "/:?#[]@!$&'()*+,;=%-._~"
_NAT64 = IPv6Network("64:ff9b::/96")
_MAPPED = IPv6Network("::ffff:0:0/96")
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
"""The upper 32 bits of an interface id that embeds an IPv4 address."""

_PRIVATE = tuple(
    map(ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"))
)
_SPECIAL = tuple(
    map(
        ip_network,
        (
            "0.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24",
            "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
            "224.0.0.0/3",
            "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
        ),
    )
)  # fmt: skip
"""The special-purpose registries of IANA, as far as they lie between addresses of the Internet:
Teredo is in 2001::/23, 6to4 is 2002::/16. Private networks are above. Not left to `ipaddress`,
whose list depends on the version of Python."""
_METADATA = tuple(
    map(
        ip_network,
        (
            "168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32", "fd00:ec2::/32",
            "fd20:ce::/32", "fd00:c1::/32", "fd00:42::/32",
        ),
    )
)  # fmt: skip
"""Metadata services of clouds (Azure, Alibaba, Oracle, Amazon, Google, Scaleway) outside the
link-local range. They give out a machine's credentials, so `private` does not include them."""

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Reach = Literal["public", "loopback", "private"]
"""The addresses that a hub may send requests to: public ones only; also this machine; also private
networks."""


class CallbackParts(msgspec.Struct, frozen=True):
    """A checked URL, split into the parts that an HTTP client needs."""

    tls: bool
    host: str
    """In lower case; an IPv6 address without brackets."""
    port: int
    target: str
    """Path and query, as in the request line."""
    authority: str
    """The value of the `Host` header."""


@lru_cache(maxsize=16_384)
def check_callback(url: str, max_chars: int = MAX_URL_CHARS) -> CallbackParts:
    """Splits a callback URL into its parts. Raises `BadRequest`, which names the problem."""
    if len(url) > max_chars:
        raise BadRequest(
            f"the callback {url[:40]!r}… has {len(url)} characters; at most {max_chars} are allowed"
        )
    found = _UNUSABLE.search(url)
    if found:
        raise _bad(url, f"contains {found.group()!r}; encode it with %")
    try:
        parts = urlsplit(url)
        port = parts.port
        host = _checked_host(url, parts.hostname or "")
    except ValueError:
        raise _bad(url, "has no port from 1 to 65535, or no host that can be read") from None
    if parts.scheme not in ("http", "https"):
        raise _bad(url, "must begin with http:// or https://")
    if "@" in parts.netloc:
        raise BadRequest("the callback holds a user or password (hidden); leave it out")
    if port == 0 or parts.netloc.endswith(":"):
        raise _bad(url, "has no port from 1 to 65535")
    tls = parts.scheme == "https"
    shown = f"[{host}]" if ":" in host else host
    target = quote(parts.path or "/", safe=_SAFE)
    if parts.query:
        target += "?" + quote(parts.query, safe=_SAFE)
    return CallbackParts(
        tls=tls,
        host=host,
        port=port or (443 if tls else 80),
        target=target,
        authority=shown if port is None else f"{shown}:{port}",
    )


def _checked_host(url: str, host: str) -> str:
    if not host:
        raise _bad(url, "has no host")
    if ":" in host:
        if "%" in host:
            raise _bad(url, "names a zone in its address; leave it out")
        return IPv6Address(host).compressed
    try:
        name = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        raise _bad(url, "has a host that is no name") from None
    if len(name) > 253 or not _HOST.fullmatch(name):
        raise _bad(url, "has a host that is neither a name nor an address")
    return name


def _bad(url: str, problem: str) -> BadRequest:
    return BadRequest(f"the callback {url[:200]!r} {problem}")


def literal_address(host: str) -> str | None:
    """Returns the IP address that a host stands for, in any spelling that operating systems accept
    (decimal, octal, hexadecimal, shortened); None if the host is a name."""
    try:
        found: Address | None = ip_address(host)
    except ValueError:
        found = _legacy_address(host)
    return str(found) if found is not None else None


def _legacy_address(host: str) -> IPv4Address | None:
    parts = host.rstrip(".").split(".")
    numbers = [_legacy_number(part) for part in parts]
    if len(parts) > 4 or None in numbers:
        return None
    *front, last = (number or 0 for number in numbers)
    if any(number > 255 for number in front) or last >= 256 ** (4 - len(front)):
        return None
    value = last + sum(number << (8 * (3 - index)) for index, number in enumerate(front))
    return IPv4Address(value)


def _legacy_number(text: str) -> int | None:
    try:
        if text[:2] in ("0x", "0X"):
            return int(text[2:] or "0", 16)
        if text.isdecimal() and text.isascii():
            return int(text, 8 if text[0] == "0" else 10)
    except ValueError:
        pass
    return None


def may_reach(text: str, reach: Reach) -> bool:
    """Whether a request may go to this address. Link-local addresses, metadata services of clouds,
    multicast groups and unreadable addresses are always refused."""
    try:
        addresses = _unwrapped(ip_address(text))
    except ValueError:
        return False
    return all(_may_reach(address, reach) for address in addresses)


def _may_reach(address: Address, reach: Reach) -> bool:
    if _is_global_unicast(address):
        return True
    if address.is_loopback:
        return reach != "public"
    return reach == "private" and _is_in(address, _PRIVATE) and not _is_in(address, _METADATA)


def _unwrapped(address: Address) -> list[Address]:
    """Returns the addresses at which packets to this one may arrive: the address itself and the
    IPv4 addresses embedded in it."""
    if isinstance(address, IPv6Address):
        low = IPv4Address(int(address) & 0xFFFFFFFF)
        if address in _MAPPED or address in _NAT64:
            return [low]
        if (int(address) >> 32) & 0xFFFFFFFF in _ISATAP:
            return [address, low]
    return [address]


def _is_global_unicast(address: Address) -> bool:
    if isinstance(address, IPv6Address) and (
        address not in _GLOBAL_UNICAST or address.scope_id is not None
    ):
        return False
    return (
        address.is_global
        and not address.is_private
        and not _is_in(address, _PRIVATE)
        and not _is_in(address, _SPECIAL)
        and not _is_in(address, _METADATA)
    )


def _is_in(address: Address, networks: tuple[Network, ...]) -> bool:
    return any(address in network for network in networks)
