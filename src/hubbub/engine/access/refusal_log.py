"""Log lines about refused callers: a page from a forbidden origin, or a hub that does not exist.
The caller is not told which of the two; the operator is."""

from __future__ import annotations

import logging

from hubbub.domain.limits import KeyedBuckets
from hubbub.ports.clock import Clock

logger = logging.getLogger(__name__)

_PER_MINUTE = 10
"""Lines per minute about one hub; all hubs that do not exist count as one."""
_REMEMBERED = 2048
_LONGEST = 100
"""Maximum length of a name chosen by a caller."""


class RefusalLog:
    """Logs each line at most once a minute, and few about one hub, since callers choose their
    content."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines = KeyedBuckets(1 / 60, 1, _REMEMBERED)
        self._hubs = KeyedBuckets(_PER_MINUTE / 60, _PER_MINUTE, _REMEMBERED)

    def origin(self, origin: str, hub: str | None, exists: bool) -> None:
        """A page's origin was refused. `hub` is None if the request named none."""
        if hub is None:
            self._warn("", "refused a page from %r: add it to listener.allowedOrigins", origin)
        elif exists:
            words = "refused a page from %r at hub %r: add it to the hub's allowedOrigins"
            self._warn(hub, words, origin, hub)
        else:
            words = "refused a page from %r at hub %r, which does not exist"
            self._warn("", words, origin, hub)

    def no_hub(self, hub: str) -> None:
        self._warn("", "a client asked for hub %r, which does not exist", hub)

    def _warn(self, hub: str, words: str, *named: str) -> None:
        now = self._clock.monotonic()
        shown = tuple(each[:_LONGEST] for each in named)
        if self._lines.take((words, shown), 1, now) or self._hubs.take(hub, 1, now):
            return
        logger.warning(words, *shown)
