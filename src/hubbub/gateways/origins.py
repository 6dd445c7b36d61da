"""Which web pages may talk to the hub: the browser's Origin, checked against a list."""

from __future__ import annotations

from collections.abc import Sequence


def origin_allowed(origin: str, host: str | None, allowed: Sequence[str]) -> bool:
    """An entry is `*`, `null`, an exact origin, or `scheme://host:*` for any port. A page of the
    hub's own host is always allowed."""
    if host is not None and origin.partition("://")[2] == host:
        return True
    return any(_matches(entry, origin) for entry in allowed)


def is_loopback(host: str | None) -> bool:
    """Whether a Host header names this very machine."""
    if host is None:
        return True
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    return name in ("localhost", "[::1]") or name.endswith(".localhost") or name.startswith("127.")


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
