"""What webhooks did and do, as plain numbers that cost next to nothing to keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hubbub.domain.webhooks import Kind
from hubbub.engine.counters import Durations
from hubbub.engine.webhooks.push import Push


class PushCounters:
    """Of the webhooks of a hub, since the start of the process."""

    __slots__ = ("answered", "dead_letters", "ended", "fetches", "outcomes")

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        """Requests by what became of them: `ok`, why there was no answer, or the kind of status
        that was none of success, such as `5xx`."""
        self.fetches: Counter[str] = Counter()
        """Fetches of topics that live elsewhere, by what became of them: `new`, `same`, `nobody`
        (is subscribed), why they failed, and `given_up` once more for the last of those."""
        self.answered = Durations()
        """Requests that brought their message there."""
        self.dead_letters = 0
        self.ended = 0
        """Webhooks that the receiver or the time put an end to."""


class HubPushes:
    """The webhooks of a hub as they are now."""

    __slots__ = ("kinds", "sending", "waiting")

    def __init__(self) -> None:
        self.kinds: Counter[Kind] = Counter()
        self.sending = 0
        """Those with a request under way."""
        self.waiting = 0
        """Those with a message that waits for its turn or its next try."""


def survey(pushes: Iterable[Push]) -> dict[str, HubPushes]:
    """By hub."""
    found: dict[str, HubPushes] = {}
    for push in pushes:
        webhook = push.webhook
        hub = found.get(webhook.hub)
        if hub is None:
            hub = found[webhook.hub] = HubPushes()
        hub.kinds[webhook.kind] += 1
        if push.sending:
            hub.sending += 1
        elif push.task is not None:
            hub.waiting += 1
    return found
