"""Names of commands: the hub's own, and valid names of plugins."""

from __future__ import annotations

import re

CORE_COMMANDS = (
    "hCreateUpdateChannel", "hEcho", "hGetChannels", "hGetLastMessages", "hGetSubscriptions",
    "hGetThread", "hGetThreads", "hListFilters", "hPublish", "hRelevantMessages", "hSetFilter",
    "hSubscribe", "hUnsetFilter", "hUnsubscribe",
)  # fmt: skip

_CORE = frozenset(name.lower() for name in CORE_COMMANDS)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


def name_problem(name: str) -> tuple[str, str] | None:
    """The problem of a plugin's name, and its remedy; None if it is valid."""
    if not _NAME.fullmatch(name):
        remedy = "use letters, digits, _ and -, at most 64, and begin with a letter"
        return f"{name!r} is no name of a command", remedy
    if name.lower() in _CORE:
        return f"{name} is a command of the hub itself", "choose another name"
    return None
